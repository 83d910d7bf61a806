"""Bands: columns of two inputs whose difference is bounded.

    A.x BETWEEN B.x - 5 AND B.x + 5,   abs(A.x - B.x) <= 5,   A.x >= B.x AND A.x < B.x + 10,
    A.x < B.x,   A.x >= B.x + 10

Where no equality leads to an input, a band does: its rows are hashed by `x // width`, with a width
as large as the widest band of a member, so that a probe looks at the two or three hashes that its
own band touches. What is found is asked like anything else; a band only says where to look. So
bounds may be too wide: floats are rounded, and a member may ask for less than another.

A difference that is bounded on one side only has stretches that are *fitted* to the values that are
held, a few rows in each: a probe looks at those up to its own, or from its own on. What lies beyond
the first or the last one is in it. As values move on, they are fitted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from braid.algebra.expressions import Call, Expression, Literal, Parameter, Ref, conjuncts
from braid.algebra.joins import plain_ref
from braid.algebra.relations import place
from braid.algebra.types import Kind, kind_of
from braid.jit.runtime import float_word
from braid.operators.core.values import Words
from braid.operators.join.spec import JoinSpec

Column = tuple[int, str]
#: A sum of constants, each with its sign.
Sum = tuple[tuple[int, Parameter | Literal], ...]

#: What is added up, each with its sign.
Terms = list[tuple[int, Ref | Parameter | Literal]]

_COLUMNS = (Kind.INTEGER, Kind.TIMESTAMP, Kind.FLOAT)
_CONSTANTS = (Kind.INTEGER, Kind.DURATION, Kind.FLOAT)
#: Bounds beyond this are none.
_FAR = 2.0**52
#: Further than any integer.
_NO_BOUND = 2**63 - 1
#: Stretches lie below this.
_HIGHEST = 2.0**60
#: Of how many values at most widths are fitted, from how many rows on, how many lie in a stretch.
_SAMPLE, _LEAST_FITTED, _IN_ONE = 4096, 64, 16


@dataclass(frozen=True)
class Band:
    """`first - second` is at most each of `above`, and `second - first` at most each of `below`."""

    first: Column
    second: Column
    floating: bool
    above: tuple[Sum, ...]
    below: tuple[Sum, ...]

    def widths(self, parameters: Words) -> tuple[float, float]:
        """The least that is below and above for every row of parameters; wide if it is far."""
        return self._least(self.below, parameters), self._least(self.above, parameters)

    def _least(self, sums: tuple[Sum, ...], parameters: Words) -> float:
        if not sums:
            return np.inf
        words = parameters.view(np.float64) if self.floating else parameters.astype(np.float64)
        totals = np.full((len(sums), max(1, len(words))), 0.0)
        for total, terms in zip(totals, sums, strict=True):
            for sign, constant in terms:
                if isinstance(constant, Parameter):
                    total += sign * words[:, constant.index]
                else:
                    total += sign * float(constant.value)
        return float(totals.min(axis=0).max())


def bands_of(spec: JoinSpec) -> tuple[Band, ...]:
    """The bands that the residual has, one for each two columns."""
    bounds: dict[tuple[Ref, Ref], list[Sum]] = {}
    for part in conjuncts(spec.residual):
        for terms in _not_above_zero(part):
            columns = [(sign, c) for sign, c in terms if isinstance(c, Ref)]
            if sorted(sign for sign, _ in columns) != [-1, 1]:
                continue
            larger, smaller = (c for _, c in sorted(columns, key=lambda term: -term[0]))
            kinds = {kind_of(larger.type), kind_of(smaller.type)}
            if place(larger.name)[0] == place(smaller.name)[0] or len(kinds) > 1:
                continue
            most = tuple((-sign, c) for sign, c in terms if not isinstance(c, Ref))
            bounds.setdefault((larger, smaller), []).append(most)
    found = [
        Band(
            place(first.name),
            place(second.name),
            kind_of(first.type) is Kind.FLOAT,
            tuple(bounds.get((first, second), ())),
            tuple(bounds.get((second, first), ())),
        )
        for first, second in dict.fromkeys(map(_in_order, bounds))
    ]
    # What is bounded on both sides leads to fewer rows.
    return tuple(sorted(found, key=lambda band: not (band.above and band.below)))


def _in_order(columns: tuple[Ref, Ref]) -> tuple[Ref, Ref]:
    first, second = columns
    return columns if place(first.name) < place(second.name) else (second, first)


def _not_above_zero(part: Expression) -> Iterator[Terms]:
    """Sums that a conjunct says are not above zero."""
    if not isinstance(part, Call) or part.function not in ("lt", "le", "gt", "ge"):
        return
    smaller, larger = part.args if part.function in ("lt", "le") else reversed(part.args)
    most = _terms(larger)
    if most is None:
        return
    absolute = isinstance(smaller, Call) and smaller.function == "abs"
    inner = _terms(smaller.args[0] if absolute and isinstance(smaller, Call) else smaller)
    if inner is None:
        return
    yield inner + _negated(most)
    if absolute:
        yield _negated(inner) + _negated(most)


def _terms(expression: Expression) -> Terms | None:
    """What an expression adds up, if it is of columns and constants that can be in a band."""
    ref = plain_ref(expression)
    if ref is not None:
        return [(1, ref)] if kind_of(ref.type) in _COLUMNS else None
    if isinstance(expression, Parameter | Literal):
        known = isinstance(expression, Parameter) or expression.value is not None
        return [(1, expression)] if known and kind_of(expression.type) in _CONSTANTS else None
    if not isinstance(expression, Call) or expression.function not in ("add", "sub"):
        return None
    first, second = (_terms(arg) for arg in expression.args)
    if first is None or second is None:
        return None
    return first + (second if expression.function == "add" else _negated(second))


def _negated(terms: Terms) -> Terms:
    return [(-sign, what) for sign, what in terms]


def band_words(band: Band, below: float, above: float) -> tuple[int | None, int, int]:
    """The width of hashes, and what is below and above a value, as words; no width (0) if the band
    is too wide for any. None: it is fitted, because there is no bound on one side."""
    sides = [side for side in (below, above) if side != np.inf]
    if not sides or not all(abs(side) < _FAR for side in sides):
        return 0, 0, 0
    if len(sides) == 1:
        return None, _side_word(band, below), _side_word(band, above)
    if band.floating:
        width = below + above
        return float_word(width if width > 0 else 1.0), float_word(below), float_word(above)
    return max(1, ceil(below + above) + 1), ceil(below) + 1, ceil(above) + 1


def _side_word(band: Band, side: float) -> int:
    if band.floating:
        return float_word(side)
    return _NO_BOUND if side == np.inf else ceil(side) + 1


def fitted(words: Words, floating: bool) -> tuple[int, int, int]:
    """The width of stretches for values that are held, as a word, and the first and the last of
    them: most have a few values each."""
    some = words[:: 1 + len(words) // _SAMPLE]
    values = some.view(np.float64) if floating else some.astype(np.float64)
    values = values[np.isfinite(values)]
    if len(words) < _LEAST_FITTED or not len(values):
        return 0, 0, 0
    low, high = np.quantile(values, [0.01, 0.99]).tolist()
    wanted = max(2, len(words) // _IN_ONE)
    width = (high - low) / wanted
    if floating:
        width = width if 0.0 < width < np.inf else 1.0
    else:
        width = max(1, ceil(width))
    first = int(np.clip(low // width, -_HIGHEST, _HIGHEST))
    return (float_word(width) if floating else int(width)), first, first + wanted
