"""A record of the binder's conversions of constants, to be repeated with other constants.

A constant in a text is a token. The binder reads a number, converts it to the type of a column,
perhaps negates it. It records each step with the type of the result, or with a failure. The binder
depends on nothing else of a constant. So if all steps of another constant have the same outcomes,
the binder builds the same expression around it. `lang/templates/skeletons.py` repeats the steps.

A parameter of a prepared query has no value yet. The parameter records the conversions that always
succeed, and its values go through them. The query does all others.
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

    `number`, `text` and `period` read the token; `rows`, `count` and `length` read the size of a
    window; `decimal` and `time` read the token in another way. `fold` converts the result of step
    `start` to the type `wanted`, and `negate` negates it. `outcome` is the type of the result, or
    None for a failure.
    """

    operation: str
    start: int
    wanted: pa.DataType | None
    outcome: pa.DataType | None


class Trace:
    """The steps of one constant, at the place `at`; `negative` if the place includes a minus."""

    __slots__ = ("at", "negative", "steps")

    def __init__(self, at: At, *, negative: bool = False) -> None:
        self.at = at
        self.negative = negative
        self.steps: list[Step] = []

    def path(self, step: int) -> tuple[Step, ...]:
        """The steps from the token to the result of a step."""
        found: list[Step] = []
        while step >= 0:
            found.append(self.steps[step])
            step = found[-1].start
        return tuple(reversed(found))


@dataclass(frozen=True, eq=False, repr=False)
class Traced(Literal):
    """A constant with its provenance."""

    trace: Trace
    step: int


def traced(trace: Trace, operation: str, literal: Literal) -> Literal:
    """A constant with its first reading."""
    return _recorded(trace, Step(operation, -1, None, literal.type), literal)


def derived(
    known: Literal, operation: str, wanted: pa.DataType | None, result: Literal | None
) -> Literal | None:
    """Record the result of a conversion of the constant `known`, or its failure."""
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
    """A parameter of FOR EACH by its index, after the conversions in `chain`."""

    chain: tuple[pa.DataType, ...] = ()

    def converted(self, type_: pa.DataType) -> Declared | None:
        """The parameter in another type, if every value of its own type has an equal there."""
        if not _always_fits(self.type, type_):
            return None
        return replace(self, type=type_, chain=(*self.chain, type_))


#: The most digits of the integers of a width.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _always_fits(of: pa.DataType, to: pa.DataType) -> bool:
    """Whether `casts.coerce` converts every constant of a type."""
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
