"""Replay of the binder's conversions with another constant.

Each recorded path (`lang/bind/constant_traces.py`) becomes a function from the constants of a text
to a value. It raises `Misfit` if the outcome of a step differs from the recorded one. The binder
might then build another query, so the text has to be bound from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isinf
from sys import intern
from typing import Any

import pyarrow as pa

from braid.algebra.expressions import Literal
from braid.algebra.types import BIGINT, DOUBLE, Kind, kind_of
from braid.lang.bind.casts import decimal_number, fold, negated, text_as
from braid.lang.bind.constant_traces import Step, Trace
from braid.lang.parse import syntax
from braid.lang.parse.durations import microseconds
from braid.lang.parse.limits import MAX_WINDOW
from braid.lang.parse.problems import Problem
from braid.lang.parse.tokens import unquote

#: From the constants of a text, as written, to one value.
Replay = Callable[[Sequence[str]], Any]
_NOWHERE = (0, 0)
_INT64 = 2**63


class Misfit(Exception):
    """A step whose outcome differs from that of the first constant."""


def replay(
    trace: Trace, path: Sequence[Step], places: Sequence[int], units: Sequence[str]
) -> Replay:
    """Replay the steps of a path; `places` are the constants of the text that it reads.

    If the last recorded step failed, it must fail again.
    """
    read = _read(trace, path[0], places, units)
    for before, step in pairwise(path):
        read = _then(read, step, before.outcome)
    return read


def _read(trace: Trace, step: Step, places: Sequence[int], units: Sequence[str]) -> Replay:
    place = places[0]
    sign = "-" if trace.negative else ""
    match step.operation:
        case "number" if step.outcome == BIGINT:
            return _whole(place, -1 if trace.negative else 1)
        case "number":
            return _float(place, sign)
        case "text":
            return lambda texts: intern(unquote(texts[place]))
        case "period":
            return _period(places, units)
        case "rows" | "count":
            return _amount(places, least=1 if step.operation == "rows" else 0)
        case "length":
            return _length(places, units)
        case "decimal":
            return _checked(lambda t: decimal_number(_number(sign + t)), place, step)
        case _:
            return _checked(lambda t: text_as(_text(t), step.wanted), place, step)


def _number(text: str) -> syntax.Number:
    return syntax.Number(text, _NOWHERE)


def _text(text: str) -> syntax.Text:
    return syntax.Text(unquote(text), _NOWHERE)


def _float(place: int, sign: str) -> Replay:
    def read(texts: Sequence[str]) -> float:
        value = float(sign + texts[place])
        if isinf(value):
            raise Misfit
        return value

    return read


def _whole(place: int, sign: int) -> Replay:
    def read(texts: Sequence[str]) -> int:
        value = sign * int(texts[place])
        if not -_INT64 <= value < _INT64:
            raise Misfit
        return value

    return read


def _period(places: Sequence[int], units: Sequence[str]) -> Replay:
    parts = tuple(zip(places, units, strict=True))

    def read(texts: Sequence[str]) -> int:
        total = 0
        for place, unit in parts:
            try:
                total += microseconds(texts[place], unit, _NOWHERE)
            except Problem:
                raise Misfit from None
        if total >= _INT64:
            raise Misfit
        return total

    return read


def _amount(places: Sequence[int], *, least: int) -> Replay:
    """The whole number of a window, which may have commas in it."""

    def read(texts: Sequence[str]) -> int:
        value = int(_joined([texts[place] for place in places]))
        if not least <= value <= MAX_WINDOW:
            raise Misfit
        return value

    return read


def _length(places: Sequence[int], units: Sequence[str]) -> Replay:
    """The time of a window: numbers with units, each of which may have commas in it."""
    parts: list[tuple[list[int], str]] = [([], "")]
    for place, unit in zip(places, units, strict=True):
        parts[-1][0].append(place)
        if unit != ",":
            parts[-1] = (parts[-1][0], unit)
            parts.append(([], ""))
    del parts[-1]

    def read(texts: Sequence[str]) -> int:
        total = 0
        for numbers, unit in parts:
            try:
                text = _joined([texts[place] for place in numbers])
                total += microseconds(text, unit, _NOWHERE)
            except Problem:
                raise Misfit from None
        if total > MAX_WINDOW:
            raise Misfit
        return total

    return read


def _joined(numbers: Sequence[str]) -> str:
    """A number as written, without its commas, which must separate groups of three digits."""
    first, *groups = numbers
    if groups and not (len(first) <= 3 and all(len(group) == 3 for group in groups)):
        raise Misfit
    return "".join(numbers)


def _checked(convert: Callable[[str], Literal | None], place: int, step: Step) -> Replay:
    """A conversion from the text itself, whose type may depend on it."""

    def read(texts: Sequence[str]) -> Any:
        try:
            found = convert(texts[place])
        except Problem:
            raise Misfit from None
        return _same(found, step)

    return read


def _then(before: Replay, step: Step, type_: pa.DataType) -> Replay:
    """One more step after a reading."""
    if step.operation == "negate":
        return lambda texts: _same(negated(Literal(before(texts), type_)), step)
    if step.outcome == DOUBLE and kind_of(type_) in (Kind.INTEGER, Kind.DECIMAL, Kind.DURATION):
        return lambda texts: float(before(texts))
    return lambda texts: _same(fold(Literal(before(texts), type_), step.wanted), step)


def _same(found: Literal | None, step: Step) -> Any:
    """The value of a result, if the result has the recorded type."""
    if found is None or step.outcome is None:
        if found is not None or step.outcome is not None:
            raise Misfit
        return None
    if found.type != step.outcome:
        raise Misfit
    return found.value
