"""Bound scalar expressions: typed, immutable, every name resolved.

Three-valued as in SQL. Where the value comes from is part of a reference:

| source   | in the language | means                                                            |
| -------- | --------------- | ---------------------------------------------------------------- |
| `INPUT`  | a bare name     | the one input of FILTER, SELECT, SAMETIME                        |
| `FIRST`  | `$1.a`          | the event of the first input of NEXT or FOLD, as it came         |
| `SECOND` | `$2.a`          | the event of the second input that is being looked at            |
| `LAST`   | `$.a`           | FOLD: the value after the previous iteration (at first: FIRST's) |

Values of literals, and the values that the reference semantics computes with, are plain
Python: None for NULL, bool, int, float, decimal.Decimal, str, bytes; timestamps and durations
are int microseconds, dates int days since 1970-01-01, arrays lists, structs dicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from operator import is_
from typing import Any, ClassVar

import pyarrow as pa

from braid.algebra.types import BOOLEAN


class Source(Enum):
    # There is one of each: where it lies says as much as its name, and is not computed.
    __hash__ = object.__hash__

    INPUT = "input"
    FIRST = "first"
    SECOND = "second"
    LAST = "last"


@dataclass(frozen=True)
class Literal:
    value: Any
    type: pa.DataType

    def __hash__(self) -> int:
        return hash((repr(self.value), str(self.type)))

    def __eq__(self, other: object) -> bool:
        # repr tells 1 from 1.0 from True and makes NaN equal to itself.
        return (
            isinstance(other, Literal)
            and repr(self.value) == repr(other.value)
            and self.type == other.type
        )


@dataclass(frozen=True)
class Parameter:
    """A constant that differs between the queries of a template; `index` is its place among them."""

    index: int
    type: pa.DataType


@dataclass(frozen=True)
class Ref:
    source: Source
    name: str
    type: pa.DataType


@dataclass(frozen=True)
class Duration:
    """DUR: `end - start` of the event the predicate is applied to.

    In NEXT and FOLD predicates that is the composite of the instance and the second event.
    Its type is DURATION on streams of timestamps and BIGINT on streams of ticks.
    """

    type: pa.DataType


class Remembers:
    """What is worked out about an immutable tree is kept in it, but does not travel with it:
    a hash is of one process only."""

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__match_args__}


@dataclass(frozen=True)
class Call(Remembers):
    """A function applied to arguments; `functions.py` lists the functions and their types.

    `cost`: of a function that a user has registered, in comparison with others; no part of identity.
    """

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType
    cost: float = field(default=0.0, compare=False, repr=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.args, self.type))

    @cached_property
    def parts(self) -> tuple[Expression, ...]:
        """The call and everything below it, parents first."""
        found: list[Expression] = []
        todo: list[Expression] = [self]
        while todo:
            part = todo.pop()
            found.append(part)
            if isinstance(part, Call):
                todo.extend(reversed(part.args))
        return tuple(found)

    @cached_property
    def conjuncts(self) -> tuple[Expression, ...]:
        """See the function of this name."""
        if self.function != "and":
            return (self,)
        return tuple([part for arg in self.args for part in conjuncts(arg)])

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """The references below, each once."""
        return tuple(dict.fromkeys([e for e in self.parts if isinstance(e, Ref)]))


Expression = Literal | Parameter | Ref | Duration | Call

TRUE = Literal(True, BOOLEAN)


def is_true(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is True


def walk(expression: Expression) -> tuple[Expression, ...]:
    """The expression and everything below it, parents first."""
    return expression.parts if isinstance(expression, Call) else (expression,)


def refs(expression: Expression) -> tuple[Ref, ...]:
    """What an expression refers to, each once."""
    if isinstance(expression, Call):
        return expression.refs
    return (expression,) if isinstance(expression, Ref) else ()


def transform(
    expression: Expression, change: Callable[[Expression], Expression | None]
) -> Expression:
    """Rebuild from the top: where `change` returns something, that replaces the part."""
    changed = change(expression)
    if changed is not None:
        return changed
    if isinstance(expression, Call):
        args = tuple([transform(arg, change) for arg in expression.args])
        if all(map(is_, args, expression.args)):
            return expression
        return Call(expression.function, args, expression.type, expression.cost)
    return expression


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts that must all be true for the whole to be true; none for TRUE."""
    if isinstance(expression, Call):
        return expression.conjuncts
    return () if is_true(expression) else (expression,)


def conjunction(parts: tuple[Expression, ...]) -> Expression:
    if not parts:
        return TRUE
    return parts[0] if len(parts) == 1 else Call("and", parts, BOOLEAN)
