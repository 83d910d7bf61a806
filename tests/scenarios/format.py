"""The text format of scenarios: streams with their events, queries, expected output.

    # Anything after a hash at the start of a line is a comment.
    stream Stock (Name STRING, Price DOUBLE) clock      -- or: ticks
      Name | Price | time
      IBM  | 90    | 9:10
      IBM  | 85    | [9:15, 9:20]

    query rebound
      SELECT ... FROM ... PUBLISH Rebound

    view Dear                                           -- a statement: CREATE VIEW ...
      CREATE VIEW Dear AS ...

    expect rebound                                      -- or what it publishes: expect Rebound
      Name | Price | time
      IBM  | 90    | [9:10, 9:24]

A file may hold several cases: `== title ==` starts one. What stands before the first title is
shared by all of them; a case may give a stream other events (`events Stock`) and adds its own
queries and expectations. Times are ticks, or `9:10`, `9:10:05`, `2009-01-05`,
`2009-01-05 9:10`; one time is a point, two in brackets are an interval. Strings need quotes
only where they could be taken for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from braid.algebra.casts import cast, float_text
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, TIMESTAMP, Kind, kind_of, type_named
from braid.reference import Event

_STREAM = re.compile(r"stream (\w+) \((.*)\) (clock|ticks)")
_COLUMN = re.compile(r"(\w+) (\w+(?:\([\d, ]+\))?)(?:, |$)")
_CLOCK = re.compile(r"(?:(\d{4}-\d{2}-\d{2}) ?)?(?:(\d{1,2}:\d{2})(:\d{2}(?:\.\d+)?)?)?")
_QUOTED = re.compile(r"'(.*)'", re.DOTALL)
_DAY = 86_400_000_000


@dataclass(frozen=True)
class StreamCase:
    """A stream with its events."""

    name: str
    schema: Schema
    is_clock: bool
    events: tuple[Event, ...] = ()

    @property
    def declared(self) -> Stream:
        """With one time column if all of its events are points."""
        is_point = all(e.start == e.end for e in self.events)
        time = ("ts",) if is_point else ("t0", "t1")
        times = [(name, TIMESTAMP if self.is_clock else BIGINT) for name in time]
        columns = Schema.of([(a.name, a.type) for a in self.schema] + times)
        return Stream(self.name, columns, time)


@dataclass(frozen=True)
class Expectation:
    """What an output must be; `lines` is where the table stands in the file."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, int]


@dataclass(frozen=True)
class Case:
    """`queries` has the texts of queries by id, and the statements of views by "view name"."""

    path: Path
    title: str
    streams: dict[str, StreamCase] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.path.stem}: {self.title}" if self.title else self.path.stem

    @property
    def is_clock(self) -> bool:
        return any(s.is_clock for s in self.streams.values())


@dataclass(frozen=True)
class Block:
    """A head line and the indented lines below it; `start` is the first of those."""

    head: str
    lines: tuple[str, ...]
    start: int


def parse(path: Path) -> list[Case]:
    """All cases of a file."""
    shared = Case(path, "")
    cases: list[Case] = []
    for block in _blocks(path.read_text(encoding="utf-8").splitlines()):
        title = re.fullmatch(r"== (.*) ==", block.head)
        if title:
            cases.append(replace(shared, title=title[1]))
        elif cases:
            cases[-1] = _extend(cases[-1], block)
        else:
            shared = _extend(shared, block)
    return cases or [shared]


def _blocks(lines: list[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        head, start = lines[at], at + 1
        at = start
        if not head.strip() or head.startswith("#"):
            continue
        assert not head.startswith(" "), f"line {start}: nothing to belong to"
        while at < len(lines) and (lines[at].startswith("  ") or not lines[at].strip()):
            at += 1
        end = at
        while end > start and not lines[end - 1].strip():
            end -= 1
        yield Block(head.strip(), tuple(lines[start:end]), start)


def _extend(case: Case, block: Block) -> Case:
    word, _, rest = block.head.partition(" ")
    match word:
        case "stream":
            stream = _stream(block)
            return replace(case, streams={**case.streams, stream.name: stream})
        case "events":
            stream = case.streams[rest]
            stream = replace(stream, events=_events(stream, block))
            return replace(case, streams={**case.streams, rest: stream})
        case "query":
            return replace(case, queries={**case.queries, rest: "\n".join(block.lines)})
        case "view":
            return replace(case, queries={**case.queries, f"view {rest}": "\n".join(block.lines)})
        case "expect":
            found = _expectation(rest, block)
            return replace(case, expectations=(*case.expectations, found))
    raise AssertionError(f"{case.path.name}:{block.start}: what is {block.head!r}?")


def _stream(block: Block) -> StreamCase:
    found = _STREAM.fullmatch(block.head)
    assert found, f"line {block.start}: {block.head!r}"
    columns = [(name, parse_type(type_)) for name, type_ in _COLUMN.findall(found[2])]
    stream = StreamCase(found[1], Schema.of(columns), found[3] == "clock")
    return replace(stream, events=_events(stream, block)) if block.lines else stream


def parse_type(text: str) -> pa.DataType:
    decimal = re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", text)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    type_ = type_named(text)
    assert type_ is not None, f"unknown type {text}"
    return type_


def _events(stream: StreamCase, block: Block) -> tuple[Event, ...]:
    header, rows = _table(block)
    assert header == (*stream.schema.names, "time"), f"line {block.start}: {header}"
    events = []
    for row in rows:
        values = tuple(
            parse_value(text, a.type) for text, a in zip(row[:-1], stream.schema, strict=True)
        )
        start, end = parse_interval(row[-1], stream.is_clock)
        events.append(Event(values, start, end))
    return tuple(events)


def _expectation(name: str, block: Block) -> Expectation:
    header, rows = _table(block)
    return Expectation(name, header, rows, (block.start, block.start + len(block.lines)))


def _table(block: Block) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    lines = [line for line in block.lines if line.strip() and not line.strip().startswith("#")]
    cells = [tuple(cell.strip() for cell in line.split("|")) for line in lines]
    assert cells, f"line {block.start}: a table needs its header"
    assert all(len(row) == len(cells[0]) for row in cells), f"line {block.start}: ragged table"
    return cells[0], tuple(cells[1:])


# ---- values ------------------------------------------------------------------------------------


def parse_value(text: str, type_: pa.DataType) -> Any:
    """A cell as a Python value of the type."""
    if text == "NULL":
        return None
    quoted = _QUOTED.fullmatch(text)
    kind = kind_of(type_)
    if quoted or kind is Kind.STRING:
        return quoted[1] if quoted else text
    if kind is Kind.DURATION:
        return int(text)
    if kind is Kind.TIMESTAMP:
        return parse_time(text, is_clock=True)
    value = cast(text, pa.string(), type_)
    assert value is not None, f"{text!r} is no {type_}"
    return value


def format_value(value: Any, type_: pa.DataType) -> str:
    if value is None:
        return "NULL"
    match kind_of(type_):
        case Kind.STRING:
            bare = value.strip() == value and value not in ("", "NULL") and "'" not in value
            return value if bare else f"'{value}'"
        case Kind.FLOAT:
            return float_text(value).removesuffix(".0")
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.TIMESTAMP:
            return format_time(value, is_clock=True)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def parse_interval(text: str, is_clock: bool) -> tuple[int, int]:
    if text.startswith("["):
        start, end = text.strip("[]").split(",")
        return parse_time(start.strip(), is_clock), parse_time(end.strip(), is_clock)
    moment = parse_time(text, is_clock)
    return moment, moment


def parse_time(text: str, is_clock: bool) -> int:
    if not is_clock:
        return int(text)
    found = _CLOCK.fullmatch(text)
    assert found, f"{text!r} is no time"
    written = f"{found[1] or '1970-01-01'} {found[2] or '00:00'}{found[3] or ''}"
    value: int | None = cast(written, pa.string(), TIMESTAMP)
    assert value is not None, f"{text!r} is no time"
    return value


def format_interval(event: Event, is_clock: bool) -> str:
    start, end = (format_time(t, is_clock) for t in (event.start, event.end))
    return end if event.start == event.end else f"[{start}, {end}]"


def format_time(moment: int, is_clock: bool) -> str:
    if not is_clock:
        return str(moment)
    date, _, clock = str(cast(moment, TIMESTAMP, pa.string())).partition(" ")
    hour, minute, second = clock.split(":")
    clock = f"{int(hour)}:{minute}" + (f":{second}" if second != "00" else "")
    if 0 <= moment < _DAY:
        return clock
    return date if moment % _DAY == 0 else f"{date} {clock}"


def format_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Aligned lines, ready to stand below an `expect`."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = (
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )
    return [f"  {line}".rstrip() for line in lines]
