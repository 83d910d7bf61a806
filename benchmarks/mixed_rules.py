"""Query sets as people write them: different attributes, nested conditions, patterns, joins, groups.

The stream `Event` has 300 nullable columns: twelve that every kind of event has, and 24 of each of
twelve kinds. An event has values only in the common columns and in those of its own kind. The stream
`Change` is narrow, and joins look up in it.

A query is of one of four families. Each draws what it shows, what it asks and how it nests that; so
hardly two of the queries have one shape. What they share is what people share: popular kinds of
events and columns, the beginnings of patterns, windows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.engines import TIME, Feed, Source
from benchmarks.workloads import Ints

KINDS = (
    "login",
    "process",
    "file",
    "network",
    "registry",
    "dns",
    "mail",
    "order",
    "payment",
    "sensor",
    "audit",
    "session",
)
#: Values of columns, by the type that the name of a column ends with.
HOSTS, USERS, WORDS = 100, 300, 120
_TEXTS, _INTS, _DOUBLES = 10, 8, 6
COMMON = {
    "kind": pa.string(),
    "host": pa.string(),
    "user_name": pa.string(),
    "site": pa.string(),
    "severity": pa.int64(),
    "source": pa.string(),
    "target": pa.string(),
    "message": pa.string(),
    "code": pa.int64(),
    "score": pa.float64(),
    "amount": pa.float64(),
    "attempts": pa.int64(),
}
_LEVELS = 10  # severities, sites
#: The part of the values of an event's own columns that are missing.
_MISSING = 0.2
_SYLLABLES = (
    "ad",
    "ba",
    "cor",
    "del",
    "el",
    "fin",
    "gra",
    "hu",
    "in",
    "jo",
    "ker",
    "lo",
    "mi",
    "net",
)

#: The share of each family of queries.
SHARES = {"selection": 0.55, "pattern": 0.25, "group": 0.1, "join": 0.1}
BOUNDS = (30, 60, 300, 600, 900, 1_800)
WINDOWS = (60, 300, 600, 900)
#: Beginnings that patterns share.
BEGINNINGS = 150


def columns_of(kind: str) -> dict[str, pa.DataType]:
    own: dict[str, pa.DataType] = {f"{kind}_text{n}": pa.string() for n in range(_TEXTS)}
    own |= {f"{kind}_count{n}": pa.int64() for n in range(_INTS)}
    return own | {f"{kind}_value{n}": pa.float64() for n in range(_DOUBLES)}


COLUMNS: dict[str, pa.DataType] = dict(COMMON)
for _kind in KINDS:
    COLUMNS |= columns_of(_kind)

EVENT = Source("Event", pa.schema([*COLUMNS.items(), (TIME, pa.int64())]))
_CHANGE = {
    "host": pa.string(),
    "user_name": pa.string(),
    "ticket": pa.int64(),
    "risk": pa.float64(),
}
CHANGE = Source("Change", pa.schema([*_CHANGE.items(), (TIME, pa.int64())]))


# ---- events ----


def word(number: int) -> str:
    """A word of three syllables and its number."""
    count = len(_SYLLABLES)
    parts = (_SYLLABLES[number // count**k % count] for k in range(3))
    return f"{''.join(parts)}{number}"


def _popular(drawn: np.random.Generator, values: int, size: int) -> Ints:
    """Numbers below `values`, the small ones more often."""
    return np.minimum(values - 1, (values * drawn.random(size) ** 2).astype(np.int64))


def _masked(values: pa.Array, present: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(present), values, pa.nulls(len(values), values.type))


def events(count: int, seed: int, batch: int) -> Feed:
    """Events in order of time, one each tick, and a change each tenth tick."""
    drawn = np.random.default_rng(seed)
    words = pa.array([word(n) for n in range(WORDS)])
    kind = _popular(drawn, len(KINDS), count)
    texts = {
        "kind": pa.array(KINDS).take(pa.array(kind)),
        "host": _named("h", _popular(drawn, HOSTS, count)),
        "user_name": _named("u", _popular(drawn, USERS, count)),
        "site": _named("s", drawn.integers(0, _LEVELS, count)),
    }
    columns: dict[str, Any] = {}
    for name, type_ in COMMON.items():
        columns[name] = texts[name] if name in texts else _values(drawn, type_, words, count)
    for number, name in enumerate(KINDS):
        own = kind == number
        for column, type_ in columns_of(name).items():
            present = own & (drawn.random(count) >= _MISSING)
            columns[column] = _masked(_values(drawn, type_, words, count), present)
    columns[TIME] = np.arange(count, dtype=np.int64)
    few = count // 10
    changes = {
        "host": _named("h", _popular(drawn, HOSTS, few)),
        "user_name": _named("u", _popular(drawn, USERS, few)),
        "ticket": pa.array(drawn.integers(0, 1_000, few)),
        "risk": pa.array(np.round(drawn.random(few), 3)),
        TIME: 10 * np.arange(few, dtype=np.int64),
    }
    return Feed({"Event": columns, "Change": changes}, batch, max(BOUNDS) + max(WINDOWS))


def _named(prefix: str, numbers: Ints) -> pa.Array:
    return pa.array([f"{prefix}{n}" for n in numbers.tolist()])


def _values(
    drawn: np.random.Generator, type_: pa.DataType, words: pa.Array, count: int
) -> pa.Array:
    if pa.types.is_string(type_):
        return words.take(pa.array(_popular(drawn, WORDS, count)))
    if pa.types.is_integer(type_):
        return pa.array(_popular(drawn, 1_000, count))
    return pa.array(np.round(drawn.random(count) * 1_000, 2))


# ---- queries ----


@dataclass(frozen=True)
class Beginning:
    """The first step of patterns: the kind of its events, and what is asked of them."""

    kind: str
    condition: str


class Writer:
    """Writes queries, the same from the same seed."""

    def __init__(self, seed: int) -> None:
        self._drawn = random.Random(seed)
        self._beginnings = [self._beginning() for _ in range(BEGINNINGS)]

    def queries(self, count: int) -> Iterator[tuple[str, str]]:
        families, shares = tuple(SHARES), tuple(SHARES.values())
        for number in range(count):
            (family,) = self._drawn.choices(families, shares)
            yield f"q{number}", getattr(self, f"_{family}")()

    # ---- the families ----

    def _selection(self) -> str:
        kind = self._kind()
        asked = f"kind = '{kind}' AND {self._narrow()} AND {self._nested(kind, 2)}"
        shown = self._sample([*COMMON, *columns_of(kind)], 1, 6)
        return f"SELECT {', '.join(shown)} FROM FILTER{{{asked}}} Event"

    def _pattern(self) -> str:
        begin = self._drawn.choice(self._beginnings)
        key = self._drawn.choice(("host", "user_name"))
        stream = f"FILTER{{kind = '{begin.kind}' AND {begin.condition}}} Event"
        steps = self._drawn.choices((2, 3, 4), (6, 3, 1))[0]
        for _ in range(steps - 1):
            asked = [f"$1.{key} = $2.{key}", self._step(self._kind())]
            if self._drawn.random() < 0.3:
                asked.append(f"$2.amount > {self._drawn.choice((0.5, 1.5, 2.0))} * $1.amount")
            asked.append(f"DUR <= {self._drawn.choice(BOUNDS)}")
            stream = f"({stream} NEXT{{{' AND '.join(asked)}}} Event)"
        names = [name + "_1" * age for age in range(steps) for name in COMMON]
        return f"SELECT {', '.join(self._sample(names, 2, 6))} FROM {stream}"

    def _group(self) -> str:
        kind, key = self._kind(), self._drawn.choice(("host", "user_name", "site"))
        shown = self._drawn.choice(
            ("count(*)", "sum(amount)", "avg(score)", "max(attempts)", "count(distinct source)")
        )
        least = {"count(*)": 5, "sum(amount)": 3_000, "avg(score)": 900, "max(attempts)": 900}
        floor = least.get(shown, 5) * self._drawn.choice((1, 2, 3))
        return (
            f"SELECT {key}, {shown} AS found FROM Event [Range {self._drawn.choice(WINDOWS)}] "
            f"WHERE kind = '{kind}' AND {self._narrow()} AND {self._nested(kind, 1)} "
            f"GROUP BY {key} HAVING {shown} > {floor}"
        )

    def _join(self) -> str:
        kind, key = self._kind(), self._drawn.choice(("host", "user_name"))
        shown = self._sample([f"Event.{name}" for name in COMMON], 1, 4)
        return (
            f"SELECT {', '.join(shown)}, Change.ticket FROM Event "
            f"[Range {self._drawn.choice(WINDOWS)}], Change [Range {self._drawn.choice(WINDOWS)}] "
            f"WHERE Event.{key} = Change.{key} AND Event.kind = '{kind}' "
            f"AND {self._narrow('Event.')} AND Change.risk > {self._drawn.choice((0.5, 0.8, 0.9))}"
        )

    # ---- conditions ----

    def _beginning(self) -> Beginning:
        kind = self._kind()
        return Beginning(kind, f"{self._narrow()} AND {self._atom(kind)}")

    def _step(self, kind: str) -> str:
        return f"$2.kind = '{kind}' AND {_of_second(self._atom(kind))}"

    def _kind(self) -> str:
        return KINDS[int(len(KINDS) * self._drawn.random() ** 2)]

    def _narrow(self, of: str = "") -> str:
        """A condition that few events meet: whom or what the query is about."""
        match self._drawn.randrange(4):
            case 0:
                return f"{of}host = 'h{self._drawn.randrange(HOSTS)}'"
            case 1:
                return f"{of}user_name = 'u{self._drawn.randrange(USERS)}'"
            case 2:
                some = (f"'u{self._drawn.randrange(USERS)}'" for _ in range(5))
                return f"{of}user_name IN ({', '.join(some)})"
            case _:
                return f"{of}source = '{self._word()}'"

    def _nested(self, kind: str, depth: int) -> str:
        if depth == 0 or self._drawn.random() < 0.25:
            return self._atom(kind)
        parts = [self._nested(kind, depth - 1) for _ in range(self._drawn.choice((2, 2, 3)))]
        joined = f"({self._drawn.choice((' AND ', ' OR ')).join(parts)})"
        return f"NOT {joined}" if self._drawn.random() < 0.15 else joined

    def _atom(self, kind: str) -> str:
        text = self._drawn.choice((f"{kind}_text{self._popular(_TEXTS)}", "message", "target"))
        number = self._drawn.choice((f"{kind}_count{self._popular(_INTS)}", "code", "attempts"))
        value = self._drawn.choice((f"{kind}_value{self._popular(_DOUBLES)}", "score", "amount"))
        match self._drawn.choices(range(10), (20, 12, 6, 14, 14, 10, 6, 5, 5, 8))[0]:
            case 0:
                return f"{text} = '{self._word()}'"
            case 1:
                return f"{text} LIKE '%{self._drawn.choice(_SYLLABLES)}%'"
            case 2:
                return f"{text} LIKE '{self._drawn.choice(_SYLLABLES)}%'"
            case 3:
                words = (f"'{self._word()}'" for _ in range(self._drawn.randint(2, 8)))
                return f"{text} IN ({', '.join(words)})"
            case 4:
                return f"{number} {self._drawn.choice(('<', '>', '>='))} {self._drawn.randrange(1_000)}"
            case 5:
                return f"{value} > {round(self._drawn.random() * 1_000, 1)}"
            case 6:
                low = self._drawn.randrange(900)
                return f"{number} BETWEEN {low} AND {low + 100}"
            case 7:
                return f"{text} IS {self._drawn.choice(('', 'NOT '))}NULL"
            case 8:
                first, last = self._drawn.sample(_SYLLABLES, 2)
                return f"regexp_like({text}, '^{first}.*{last}[0-9]+$')"
            case _:
                return self._computed(text, number, value)

    def _computed(self, text: str, number: str, value: str) -> str:
        factor = self._drawn.choice((2, 3, 5))
        return self._drawn.choice(
            (
                f"{number} * {factor} < severity + code",
                f"{value} + amount > {300 * factor}",
                f"length({text}) > {5 + factor}",
                f"{value} / {factor} >= score - {10 * factor}",
            )
        )

    def _word(self) -> str:
        return word(self._popular(WORDS))

    def _popular(self, values: int) -> int:
        return int(values * self._drawn.random() ** 2)

    def _sample(self, names: list[str], least: int, most: int) -> list[str]:
        return self._drawn.sample(names, self._drawn.randint(least, most))


_NAME = re.compile("|".join(rf"\b{name}\b" for name in COLUMNS))


def _of_second(condition: str) -> str:
    """The condition, asked of the second event of a step."""
    return _NAME.sub(lambda found: f"$2.{found.group()}", condition)


# ---- what the texts have in common ----


def distinct_parts(text: str) -> Iterator[str]:
    """The sub-expressions of a query, as texts: each stream that is built on the way, and the query.

    Sharing of equal sub-expressions alone needs an operator for each that is distinct.
    """
    yield text
    _, _, stream = text.partition(" FROM ")
    if " WHERE " in stream:
        inputs, _, asked = stream.partition(" WHERE ")
        yield inputs
        yield asked
        return
    while stream.startswith("("):
        yield stream
        stream = _first_input(stream)
    yield stream


def _first_input(pattern: str) -> str:
    """The first input of a pattern in parentheses: what stands before its last NEXT."""
    return pattern[1 : pattern.rindex(" NEXT{")]
