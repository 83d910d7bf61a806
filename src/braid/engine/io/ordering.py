"""Ordering: holds events back until the watermark has passed them.

Each stream has a mark: the highest `end` seen anywhere on it, less its lateness; a stream that
is stamped on arrival has the present as its mark. The watermark of a clock is the smallest mark
of its streams, idle ones left out: events that end before it are complete and are released, the
newest epoch stays until time moves on. When all streams of a clock have been silent for long
enough, the watermark moves just past the newest event, so that nothing is held any longer. An
event that ends before the watermark when it arrives is late.

The watermark is a function of what has been observed and of the processing time that the caller
gives: nothing here reads a clock, so a batch that is run again decides the same.

Events are kept in chunks in the order of arrival, each sorted by `end`. A chunk is saved once, when
it arrives, and dropped when all of it has been released. The watermark alone determines the
released part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.schema import TICKS
from braid.algebra.streams import Stream
from braid.engine.io.ingest import END, START, Ends
from braid.operators.core.values import Words

#: Before any event.
NEVER = np.iinfo(np.int64).min
#: No event ends later.
END_OF_TIME = 2**62
FOREVER = np.iinfo(np.int64).max


@dataclass
class Chunk:
    """Events of one channel, sorted by `end`. The first `released` of them have been released."""

    number: int
    channel: str
    events: pa.RecordBatch
    ends: np.ndarray
    released: int = 0
    #: The addresses of its words, after a search, if they can be read in place.
    sources: Words | None = None

    @property
    def left(self) -> int:
        return len(self.ends) - self.released

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """The columns by name. The last epoch is released later than the others, and reads them
        again."""
        return dict(zip(self.events.schema.names, self.events.columns, strict=True))


class Part(NamedTuple):
    """A range of the events of a chunk."""

    chunk: Chunk
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    @staticmethod
    def whole(channel: str, events: pa.RecordBatch) -> Part:
        ends = events.column(END).to_numpy(zero_copy_only=False)
        return Part(Chunk(0, channel, events, ends), 0, len(ends))


@dataclass
class Progress:
    """The progress of a stream: its highest `end`, and the processing time of its last activity."""

    highest: int | None = None
    active: int | None = None


@dataclass
class Ordering:
    """The events of one shard that wait for the watermark."""

    streams: Mapping[str, Stream]
    channels: dict[str, str]
    #: The streams whose time counts. On Spark, they include streams with events only on other
    #: shards.
    awaited: frozenset[str]
    idle_timeout: int | None
    bounds: dict[str, int] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    next_number: int = 0
    last_stamp: int = 0
    #: Receives the times of all events of a channel, including late ones.
    arrived: Callable[[str, Ends], None] | None = None

    def stream_of(self, channel: str) -> Stream:
        return self.streams[self.channels[channel]]

    def bound(self, unit: str) -> int:
        return self.bounds.get(unit, NEVER)

    def accept(
        self, channel: str, events: pa.RecordBatch, now: int, ends: Ends | None = None
    ) -> pa.RecordBatch | None:
        """Take events and return the late ones. `ends` are their ends, if known."""
        stream = self.stream_of(channel)
        if stream.stamped_on_arrival:
            events, ends = self._stamped(events, max(now, self.bound(stream.unit))), None
        if ends is None:
            ends = Ends.of(events)
        if self.arrived is not None and events.num_rows:
            self.arrived(channel, ends)
        bound = self.bound(stream.unit)
        rest = None
        if events.num_rows and ends.lowest < bound:
            late = ends.words < bound
            rest = events.filter(pa.array(late))
            events = events.filter(pa.array(~late))
            ends = Ends.of(events)
        self._keep(channel, events, ends)
        return rest

    def _stamped(self, events: pa.RecordBatch, now: int) -> pa.RecordBatch:
        """Give events their time of arrival, each a different one, later than all earlier ones."""
        first = max(now, self.last_stamp + 1)
        stamps = pa.array(np.arange(first, first + events.num_rows, dtype=np.int64))
        self.last_stamp = first + events.num_rows - 1
        arrays = [stamps, stamps, *events.columns]
        return pa.RecordBatch.from_arrays(arrays, [START, END, *events.schema.names])

    def _keep(self, channel: str, events: pa.RecordBatch, ends: Ends) -> None:
        if not events.num_rows:
            return
        words = ends.words
        if not ends.in_order:
            order = np.argsort(words, kind="stable")
            events, words = events.take(pa.array(order)), words[order]
        self.chunks.append(Chunk(self.next_number, channel, events, words))
        self.next_number += 1

    def observe(self, stream: str, highest: int | None, now: int) -> None:
        """Record the progress of a stream. `highest` is None if the stream exists but has no events
        yet."""
        progress = self.progress.setdefault(stream, Progress())
        if progress.active is None:
            progress.active = now
        if highest is None:
            return
        progress.active = now
        if progress.highest is None or highest > progress.highest:
            progress.highest = highest

    def watermark(self, unit: str, now: int) -> int:
        """The time before which all events of the streams of one clock have arrived."""
        names = [name for name in self.awaited if self.streams[name].unit == unit]
        marks = [mark for name in names if (mark := self._mark(name, now)) is not None]
        timed = [name for name in names if self.streams[name].has_own_time]
        return max(self.bound(unit), min(marks, default=NEVER), self._end_of_silence(timed, now))

    def _mark(self, name: str, now: int) -> int | None:
        """The mark of one stream; None if the stream is idle and no longer counts."""
        stream = self.streams[name]
        if stream.stamped_on_arrival:
            return max(now, self.last_stamp + 1)
        progress = self.progress.get(name, Progress())
        if stream.has_own_time and self._is_silent(progress, self.idle_timeout, now):
            return None
        if progress.highest is None:
            return NEVER
        return progress.highest - stream.lateness

    def _end_of_silence(self, timed: Sequence[str], now: int) -> int:
        """The time just after the newest event of these streams, if none of them counts any more."""
        known = {name: self.progress.get(name, Progress()) for name in timed}
        if not all(self._is_silent(p, self._patience(n), now) for n, p in known.items()):
            return NEVER
        ends = (p.highest for p in known.values() if p.highest is not None)
        return max(ends, default=NEVER - 1) + 1

    def _patience(self, name: str) -> int | None:
        """The silence of a stream after which its newest events are released.

        Never less than its lateness: events that are late by so much are promised a place. A
        lateness in ticks says nothing about the clock.
        """
        stream, timeout = self.streams[name], self.idle_timeout
        return timeout if timeout is None or stream.unit == TICKS else max(timeout, stream.lateness)

    @staticmethod
    def _is_silent(progress: Progress, patience: int | None, now: int) -> bool:
        if patience is None or progress.active is None:
            return False
        return now - progress.active >= patience

    def due(self, now: int) -> int | None:
        """The next processing time at which the watermark advances without events; None if there is
        none. Valid after a release."""
        timeout = self.idle_timeout
        if timeout is None:
            return None
        timed = [name for name in self.awaited if self.streams[name].has_own_time]
        moments = {
            active + patience
            for name in timed
            if (active := self.progress.get(name, Progress()).active) is not None
            for patience in (timeout, self._patience(name) or 0)
        }
        units = {self.streams[name].unit for name in timed}
        for moment in sorted(m for m in moments if m > now):
            if any(self.watermark(unit, moment) > self.bound(unit) for unit in units):
                return moment
        return None

    def listening_since(self, began: int) -> None:
        """Restart the measurement of silence at this processing time, before which nothing could
        arrive."""
        for progress in self.progress.values():
            if progress.active is not None:
                progress.active = max(progress.active, began)

    def release(self, now: int) -> dict[str, list[Part]]:
        """The events that are complete now, by channel."""
        for name in self.awaited:
            self.observe(name, None, now)  # silence counts from the first call on
        for unit in {s.unit for s in self.streams.values()}:
            self.bounds[unit] = self.watermark(unit, now)
        return self._take()

    def release_all(self, ended: Iterable[str] = ()) -> dict[str, list[Part]]:
        """All held events: the input has ended, and for the clocks in `ended` time has too."""
        for chunk in self.chunks:
            unit = self.stream_of(chunk.channel).unit
            self.bounds[unit] = max(self.bound(unit), int(chunk.ends[-1]) + 1)
        for unit in ended:
            self.bounds[unit] = END_OF_TIME + 1
        return self._take()

    def _take(self) -> dict[str, list[Part]]:
        released: dict[str, list[Part]] = {}
        for chunk in self.chunks:
            bound = self.bound(self.stream_of(chunk.channel).unit)
            until = int(np.searchsorted(chunk.ends, bound, side="left"))
            if until > chunk.released:
                part = Part(chunk, chunk.released, until)
                released.setdefault(chunk.channel, []).append(part)
                chunk.released = until
        self.chunks = [c for c in self.chunks if c.left]
        return released

    @property
    def held(self) -> int:
        return sum(c.left for c in self.chunks)

    def restore_chunks(self, chunks: Iterable[tuple[int, str, pa.RecordBatch]]) -> None:
        """Restore saved chunks, without the events that the watermark has released."""
        for number, channel, events in chunks:
            if channel not in self.channels:
                continue
            ends = events.column(END).to_numpy(zero_copy_only=False)
            bound = self.bound(self.stream_of(channel).unit)
            chunk = Chunk(number, channel, events, ends, int(np.searchsorted(ends, bound)))
            if chunk.left:
                self.chunks.append(chunk)
