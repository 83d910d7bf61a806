"""Declared streams: a name, a schema, where its time is, how late its events may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import pyarrow as pa

from braid.algebra.schema import MICROSECONDS, TICKS, Schema
from braid.algebra.types import Kind, kind_of, sql_name

#: The time column of streams that another part of the system stamps on arrival.
ARRIVAL = "__arrival"


@dataclass(frozen=True)
class Stream:
    """A source of events.

    `columns` are all columns in the order of the declaration, `time` the names of none (stamped
    on arrival), one (point events) or two (intervals) of them. Time columns are not attributes.
    `lateness` is in ticks of the stream's clock; `sequence` names a column that orders events
    of equal time; `sharable` the streams declared interchangeable with this one; `documents` the
    columns whose texts must be XML, or JSON if they are in `json`.
    """

    name: str
    columns: Schema
    time: tuple[str, ...] = ()
    lateness: int = 0
    sequence: str | None = None
    sharable: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    json: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.time) <= 2
        assert self.lateness >= 0
        for name in self.time:
            assert name in self.columns, f"time column {name} is not a column"

    @property
    def schema(self) -> Schema:
        """The attributes: what queries can name."""
        return Schema(tuple(a for a in self.columns if a.name not in self.time))

    @cached_property
    def unit(self) -> str:
        """What the clock counts: an integer time column counts ticks, everything else microseconds."""
        if self.time and kind_of(self.time_type) is Kind.INTEGER:
            return TICKS
        return MICROSECONDS

    @property
    def time_type(self) -> pa.DataType:
        """The type in which `start` and `end` of results are shown."""
        if not self.time:
            return pa.timestamp("us", "UTC")
        return self.columns.type_of(self.time[0])

    @property
    def stamped_on_arrival(self) -> bool:
        return not self.time

    @property
    def has_own_time(self) -> bool:
        """Whether its events say when they occurred. Otherwise the clock says it, wherever
        they are stamped, and the stream holds nobody back."""
        return self.time not in ((), (ARRIVAL,))


def sharable_classes(streams: Mapping[str, Stream]) -> dict[str, tuple[str, ...]]:
    """Which streams may be one channel: those that are declared sharable, transitively.

    An event of a channel is one row, so streams whose declarations contradict each other are not in
    one class (`contradiction`). Whether they are read does not matter: a channel has its name from
    the start.
    """
    classes: dict[str, set[str]] = {name: {name} for name in streams}
    for name, other in _declared_pairs(streams):
        pairs = product(classes[name], classes[other])
        if all(contradiction(streams[a], streams[b]) is None for a, b in pairs if a != b):
            joined = classes[name] | classes[other]
            for member in joined:
                classes[member] = joined
    return {name: tuple(sorted(found)) for name, found in classes.items() if len(found) > 1}


def unshared(streams: Mapping[str, Stream]) -> list[tuple[str, str, str]]:
    """The pairs of streams that are declared sharable and are not one channel, with the reason."""
    classes = sharable_classes(streams)
    found = []
    for name, other in _declared_pairs(streams):
        if other not in classes.get(name, (name,)):
            others = [
                (a, b) for a in classes.get(name, (name,)) for b in classes.get(other, (other,))
            ]
            reasons = (contradiction(streams[a], streams[b]) for a, b in [(name, other), *others])
            found.append((name, other, next(reason for reason in reasons if reason is not None)))
    return found


def _declared_pairs(streams: Mapping[str, Stream]) -> Iterator[tuple[str, str]]:
    for name, stream in streams.items():
        yield from ((name, other) for other in stream.sharable if other in streams)


def contradiction(one: Stream, other: Stream) -> str | None:
    """Why events of two streams cannot be rows of one channel; None if they can.

    The order of the columns does not matter, and one may have attributes that the other lacks.
    """
    if one.unit != other.unit:
        return f"times are numbers in {(one if one.unit == TICKS else other).name} only"
    for a, b in ((one, other), (other, one)):
        for name in a.time:
            if name in b.schema:
                return f"{name!r} is a time of {a.name} and an attribute of {b.name}"
    for attribute in one.schema:
        name = attribute.name
        if name not in other.schema:
            continue
        types = attribute.type, other.schema.type_of(name)
        if types[0] != types[1]:
            shown = [sql_name(type_) for type_ in types]
            return f"{name!r} is {shown[0]} in {one.name} and {shown[1]} in {other.name}"
        if (name in one.documents, name in one.json) != (
            name in other.documents,
            name in other.json,
        ):
            return f"{name!r} has other documents in {one.name} than in {other.name}"
    return None


def united(streams: Sequence[Stream]) -> Stream:
    """The stream of events that belong to all of these: the first one, with all their attributes."""
    first, *others = streams
    more = {a.name: a for other in others for a in other.schema if a.name not in first.columns}
    if not more:
        return first
    return replace(
        first,
        columns=Schema((*first.columns, *more.values())),
        documents=tuple(dict.fromkeys(name for s in streams for name in s.documents)),
        json=tuple(dict.fromkeys(name for s in streams for name in s.json)),
    )
