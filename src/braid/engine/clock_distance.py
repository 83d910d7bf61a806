"""Clock distance: finds streams whose times are further apart than the windows of their queries.

A join of a stream with times of last year and one that is stamped on arrival is valid, and never
has a row. The times of both show it. If the events of two streams are further apart than a window,
or than a bound of DUR, no result can combine events of both.

A stream may be catching up. So Braid judges a running query only after several batches with events
of both streams, and only if the stream that is behind would need very many more batches. At the end
of the input, all times are known and the judgement is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from braid.algebra.documents import Documents
from braid.algebra.expressions import Expression, Literal
from braid.algebra.nodes import (
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
    walk_nodes,
)
from braid.algebra.relations import (
    GroupRows,
    Join,
    Relation,
    ToStream,
    Window,
    WindowKind,
    walk_rows,
    windows,
)
from braid.algebra.schema import TICKS
from braid.algebra.streams import Stream
from braid.algebra.templates import Members
from braid.errors import Notice

#: Batches with events that both streams must have had, and how many times as many the one that is
#: behind may still need.
BATCHES, PATIENCE = 5, 1_000

#: The most queries of one template that are checked.
MOST = 20

#: Two streams, and the longest distance between their events in one result.
Reach = tuple[str, str, int]
#: The same for a query, and the number of unchecked queries of its template.
Case = tuple[str, int, str, str, int]


@dataclass
class Span:
    """The range of the times of a stream, including late events."""

    lowest: int
    highest: int
    #: The highest time of its first batch, and the number of batches with events.
    first: int
    batches: int = 0
    #: Whether the current batch has events.
    is_fresh: bool = True

    def extend(self, lowest: int, highest: int) -> None:
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)
        if self.batches == 0:
            self.first = self.highest
        self.is_fresh = True

    def end_batch(self) -> None:
        self.batches += self.is_fresh
        self.is_fresh = False

    def needs(self, until: int) -> float:
        """The number of batches until it reaches this time, at its pace so far."""
        moved = self.highest - self.first
        return (until - self.highest) * max(self.batches - 1, 1) / moved if moved else np.inf


@dataclass
class ClockDistance:
    """The streams of one shard, and the queries that combine some of them."""

    streams: Mapping[str, Stream]
    #: The declared stream of each channel.
    channels: Mapping[str, str]
    spans: dict[str, Span] = field(default_factory=dict)
    #: The unchecked queries, and the distances to judge for the others.
    _groups: list[Members] = field(default_factory=list)
    _cases: list[Case] = field(default_factory=list)

    def add_queries(self, members: Members) -> None:
        """Add queries to check. Queries that read one stream are ignored."""
        read = {self.channels[n] for n in members.template.reads if n in self.channels}
        if len(members) and len(read) > 1:
            self._groups.append(members)

    def observe(self, stream: str, lowest: int, highest: int) -> None:
        """Record the lowest and highest time of new events."""
        if stream not in self.spans:
            self.spans[stream] = Span(lowest, highest, highest)
        self.spans[stream].extend(lowest, highest)

    def notices(self, is_registered: Callable[[str], bool], *, ended: bool = False) -> list[Notice]:
        """The notices after a batch, once for a query; `ended`: after the last batch."""
        for span in self.spans.values():
            span.end_batch()
        if not any(self._are_apart(a, b, 0, ended) for a, b in combinations(self.spans, 2)):
            return []
        groups, self._groups = self._groups, []
        self._cases += [case for members in groups for case in self._cases_of(members)]
        judged = [case for case in self._cases if self._are_apart(*case[2:], ended)]
        self._cases = [case for case in self._cases if case not in judged]
        return [
            Notice("W208", query, self._message(a, b, reach, others))
            for query, others, a, b, reach in judged
            if is_registered(query)
        ]

    def _cases_of(self, members: Members) -> Iterator[Case]:
        for row in range(min(len(members), MOST)):
            reaches: dict[tuple[str, str], int] = {}
            for output in members.template.instantiate(members.row(row)):
                for a, b, reach in self._reaches(output.node):
                    reaches[a, b] = min(reach, reaches.get((a, b), reach))
            for (a, b), reach in reaches.items():
                if a != b and self.streams[a].unit == self.streams[b].unit:
                    yield members.ids[row].as_py(), len(members) - MOST, a, b, reach

    def _are_apart(self, a: str, b: str, reach: int, ended: bool) -> bool:
        """Whether no event of one stream can reach one of the other, now or soon."""
        if a not in self.spans or b not in self.spans:
            return False
        behind, ahead = sorted((self.spans[a], self.spans[b]), key=lambda span: span.highest)
        until = ahead.lowest - reach
        if behind.highest >= until:
            return False
        if ended:
            return True
        seen = min(behind.batches, ahead.batches)
        return seen >= BATCHES and behind.needs(until) > PATIENCE * behind.batches

    def _reaches(self, node: Node) -> Iterator[Reach]:
        """The pairs of streams that results combine, and the longest distance of each pair."""
        for part in walk_nodes(node):
            match part:
                case Sequence() | Iterate() if part.horizon is not None:
                    yield from self._pairs(part.first, part.second, part.horizon)
                case ToStream():
                    for relation in walk_rows(part.relation):
                        if isinstance(relation, Join):
                            yield from self._joined(relation)
                case Documents():
                    for number, size in enumerate(part.windows, 1):
                        if isinstance(size, Literal):
                            for earlier in part.sources[:number]:
                                yield from self._pairs(earlier, part.sources[number], size.value)

    def _joined(self, join: Join) -> Iterator[Reach]:
        for left, right in combinations(join.inputs, 2):
            reach, other = _reach(left), _reach(right)
            if reach is None or other is None:
                continue
            for a, b in product(_needed_windows(left), _needed_windows(right)):
                yield from self._pairs(a.input, b.input, max(reach, other))

    def _pairs(self, first: Node, second: Node, reach: int) -> Iterator[Reach]:
        for a, b in product(self._needed(first), self._needed(second)):
            yield (min(a, b), max(a, b), reach)

    def _needed(self, node: Node) -> frozenset[str]:
        """The declared streams that contribute an event to every event of a node."""
        match node:
            case Read(stream=name):
                return frozenset({self.channels[name]} if name in self.channels else ())
            case Select(input=input_) | Project(input=input_) | SameTime(input=input_):
                return self._needed(input_)
            case Union(first=first, second=second):
                return self._needed(first) & self._needed(second)
            case Sequence(first=first, second=second) | Iterate(first=first, second=second):
                return self._needed(first) | self._needed(second)
            case _:
                return frozenset()  # their times differ from those of their inputs

    def _message(self, a: str, b: str, reach: int, others: int) -> str:
        of = self.streams[a].unit
        said = "; ".join(self._described(name) for name in (a, b))
        stamped = [name for name in (a, b) if not self.streams[name].has_own_time]
        advice = (
            f"if {stamped[0]} has a time column, declare it (TIME in CREATE STREAM, time= of run "
            "and stream)"
            if len(stamped) == 1
            else "check the time columns of both, their time zones and units"
        )
        more = f" (and perhaps {others} more queries like it)" if others > 0 else ""
        return (
            f"no result can combine events of {a} and {b}, because their times are too far apart{more}: "
            f"{said}; the query combines events at most {_length(reach, of)} apart; {advice}"
        )

    def _described(self, name: str) -> str:
        span, stream = self.spans[name], self.streams[name]
        low, high = (_moment(t, stream.unit) for t in (span.lowest, span.highest))
        said = f"{name} is at {low}" if low == high else f"{name} has {low} to {high}"
        return said if stream.has_own_time else f"{said} (no time column: stamped on arrival)"

    def to_json(self) -> dict[str, list[int]]:
        return {n: [s.lowest, s.highest, s.first, s.batches] for n, s in self.spans.items()}

    def restore(self, saved: Mapping[str, list[int]]) -> None:
        self.spans = {
            name: Span(lowest, highest, first, batches, is_fresh=False)
            for name, (lowest, highest, first, batches) in saved.items()
        }


def _reach(relation: Relation) -> int | None:
    """How long an event stays in a relation after its arrival; None if forever."""
    sizes = [_size(w.kind, w.size) for w in windows(relation)]
    return None if None in sizes else max((s for s in sizes if s is not None), default=None)


def _needed_windows(relation: Relation) -> Iterator[Window]:
    """The windows that must have a row for the relation to have one. An aggregate without GROUP BY
    always has a row."""
    if isinstance(relation, Window):
        yield relation
    elif not (isinstance(relation, GroupRows) and not relation.keys):
        for below in relation.inputs:
            yield from _needed_windows(below)


def _size(kind: WindowKind, size: Expression | None) -> int | None:
    if kind is WindowKind.NOW:
        return 0
    return size.value if kind is WindowKind.RANGE and isinstance(size, Literal) else None


def _moment(time: int, unit: str) -> str:
    return str(time) if unit == TICKS else str(np.datetime64(time, "us")).replace("T", " ")


def _length(ticks: int, unit: str) -> str:
    return f"{ticks} ticks" if unit == TICKS else f"{ticks / 1_000_000:g} s"
