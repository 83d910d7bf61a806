"""Declared streams: a name, a schema, the place of the time, the lateness of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from braid.algebra.schema import MICROSECONDS, TICKS, Schema
from braid.algebra.types import Kind, kind_of

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
        """The attributes, which queries can name."""
        return Schema(tuple(a for a in self.columns if a.name not in self.time))

    @cached_property
    def unit(self) -> str:
        """The unit of the clock: an integer time column counts ticks, every other clock
        microseconds."""
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
        """Whether its events have their own time. Otherwise the clock at their arrival gives the
        time, and the stream never delays others."""
        return self.time not in ((), (ARRIVAL,))


def sharable_classes(streams: Mapping[str, Stream]) -> dict[str, tuple[str, ...]]:
    """The streams that may share a channel: those declared sharable, transitively.

    Whether they are read does not matter: a channel has its name from the start.
    """
    classes: dict[str, set[str]] = {name: {name} for name in streams}
    for name, stream in streams.items():
        for other in stream.sharable:
            if other in classes and streams[other].schema == stream.schema:
                joined = classes[name] | classes[other]
                for member in joined:
                    classes[member] = joined
    return {name: tuple(sorted(found)) for name, found in classes.items() if len(found) > 1}
