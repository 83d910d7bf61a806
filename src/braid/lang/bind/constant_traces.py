"""What the binder did with the constants of a text, so that it can be done with others.

A constant in a text is a token. What stands for it in the algebra went through a few steps: a
number is read, converted to the type of the column beside it, perhaps negated. Each step is
recorded with the type that came out of it, or that nothing did. A binder that gets another
constant whose steps come out the same builds the same expression around it, because it looks
at nothing else of a constant. `lang/templates/skeletons.py` replays the steps.

A parameter of a prepared query has no value to convert: the conversions that always succeed are
recorded in the parameter and done with its values; all others are done by the query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from braid.algebra.expressions import Literal, Parameter
from braid.algebra.types import DOUBLE, Kind, kind_of
from braid.lang.parse.problems import At


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on a constant.

    `number`, `text` and `period` read the token, `rows`, `count` and `length` those of a window's
    size, `decimal` and `time` read it again in another way; `fold` converts the result of step `start` to the type `wanted`, `negate` negates it.
    `outcome` is the type of the result, None if it could not be done.
    """

    operation: str
    start: int
    wanted: pa.DataType | None
    outcome: pa.DataType | None


class Trace:
    """All steps of one constant, which stands at `at`; `negative` if that includes a minus."""

    __slots__ = ("at", "negative", "steps")

    def __init__(self, at: At, *, negative: bool = False) -> None:
        self.at = at
        self.negative = negative
        self.steps: list[Step] = []

    def path(self, step: int) -> tuple[Step, ...]:
        """The steps that lead from the token to the result of a step."""
        found: list[Step] = []
        while step >= 0:
            found.append(self.steps[step])
            step = found[-1].start
        return tuple(reversed(found))


@dataclass(frozen=True, eq=False, repr=False)
class Traced(Literal):
    """A constant that knows where it comes from."""

    trace: Trace
    step: int


def traced(trace: Trace, operation: str, literal: Literal) -> Literal:
    """A constant as it was first read."""
    return _recorded(trace, Step(operation, -1, None, literal.type), literal)


def derived(
    known: Literal, operation: str, wanted: pa.DataType | None, result: Literal | None
) -> Literal | None:
    """What became of the constant `known`: the result, or that there is none, is recorded."""
    if not isinstance(known, Traced):
        return result
    start = -1 if operation in ("decimal", "time") else known.step
    if result is None:
        known.trace.steps.append(Step(operation, start, wanted, None))
        return None
    return _recorded(known.trace, Step(operation, start, wanted, result.type), result)


def _recorded(trace: Trace, step: Step, literal: Literal) -> Literal:
    trace.steps.append(step)
    return Traced(literal.value, literal.type, trace, len(trace.steps) - 1)


@dataclass(frozen=True)
class Declared(Parameter):
    """A parameter of FOR EACH, the one with this index, after the conversions in `chain`."""

    chain: tuple[pa.DataType, ...] = ()

    def converted(self, type_: pa.DataType) -> Declared | None:
        """In another type, if every value of its own type has one there."""
        if not _always_fits(self.type, type_):
            return None
        return replace(self, type=type_, chain=(*self.chain, type_))


#: How many digits the integers of a width can have.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _always_fits(of: pa.DataType, to: pa.DataType) -> bool:
    """Whether `casts.coerce` converts every constant of a type when a query is bound."""
    a, b = kind_of(of), kind_of(to)
    counts = (Kind.INTEGER, Kind.DURATION)
    if a in counts and b in counts:
        return bool(of.bit_width <= to.bit_width)
    if to == DOUBLE:
        return a in (*counts, Kind.FLOAT, Kind.DECIMAL)
    if b is not Kind.DECIMAL or a not in (Kind.INTEGER, Kind.DECIMAL):
        return False
    whole = _DIGITS[of.bit_width] if a is Kind.INTEGER else of.precision - of.scale
    scale = 0 if a is Kind.INTEGER else of.scale
    return bool(scale <= to.scale and whole <= to.precision - to.scale)
