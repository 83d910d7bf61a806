"""Lengths of time as users write them: `10min`, `30 s`, `52 weeks`, `1h 30min`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from braid.errors import ConfigError
from braid.lang.parse.limits import exact_number, quoted
from braid.lang.parse.problems import At, Problem, similar

_SECOND = 1_000_000

_UNITS = {
    1: ("us", "microsecond", "microseconds"),
    1_000: ("ms", "millisecond", "milliseconds"),
    _SECOND: ("s", "sec", "secs", "second", "seconds"),
    60 * _SECOND: ("min", "mins", "minute", "minutes"),
    3_600 * _SECOND: ("h", "hr", "hrs", "hour", "hours"),
    86_400 * _SECOND: ("d", "day", "days"),
    604_800 * _SECOND: ("w", "week", "weeks"),
}
_MICROSECONDS = {name: size for size, names in _UNITS.items() for name in names}

#: Words that are not units, because they have no fixed length or are ambiguous.
_REFUSED = {
    "m": "write min for minutes",
    "month": "a month has no fixed length: write days",
    "months": "a month has no fixed length: write days",
    "year": "a year has no fixed length: write days or weeks",
    "years": "a year has no fixed length: write days or weeks",
}

#: The limit in microseconds: a signed 64-bit integer.
LONGEST = 2**63 - 1
_PART = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([^\W\d]+)\s*")


def microseconds(amount: str, unit: str, at: At) -> int:
    """One part of a duration, e.g. `10` and `min`."""
    size = _MICROSECONDS.get(unit.lower())
    if size is None:
        raise Problem("E113", f"{unit!r} is not a unit of time", at, _unit_hint(unit))
    number = exact_number(amount)
    if number is None or number * size > LONGEST:
        raise Problem("E112", f"{quoted(amount)} {unit} is longer than can be counted", at)
    if amount.isdecimal():
        return int(amount) * size
    return int((number * size).to_integral_value())


def in_all(parts: Iterable[int], at: At) -> int:
    """A duration of several parts."""
    total = sum(parts)
    if total > LONGEST:
        raise Problem("E112", "this length of time is longer than can be counted", at)
    return total


def parse_duration(text: str | int) -> int:
    """A duration in microseconds. `parse_duration("1h 30min")` is 5400000000; a number stays as it
    is."""
    if isinstance(text, int):
        return text
    parts: list[int] = []
    position = 0
    try:
        while position < len(text) and (part := _PART.match(text, position)):
            parts.append(microseconds(part[1], part[2], part.span()))
            position = part.end()
        total = in_all(parts, (0, len(text)))
    except Problem as problem:
        raise ConfigError(problem.code, problem.message, problem.hint) from None
    if position < len(text) or not text.strip():
        hint = "a duration is a number and a unit, such as 10 seconds, 30s, 5min, 1h 30min"
        raise ConfigError("E113", f"{quoted(text)!r} is not a duration", hint)
    return total


def _unit_hint(unit: str) -> str:
    if unit.lower() in _REFUSED:
        return _REFUSED[unit.lower()]
    guess = similar(unit, _MICROSECONDS)
    known = "units: us, ms, s, min, h, d, weeks, or their full names"
    return f"did you mean {guess}? {known}" if guess else known
