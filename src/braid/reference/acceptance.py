"""Which events are accepted and how far time is: `docs/semantics.md` in plain Python.

Batches come with the processing time at which they are taken. Each stream with a time of its own
has a mark, the highest `end` seen on it less its lateness; a stream that is stamped on arrival has
the present. The watermark is the smallest mark of the streams that are waited for. When none of
the streams with a time is waited for any more, the watermark is just after the newest event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from braid.algebra.schema import TICKS
from braid.algebra.streams import Stream


@dataclass
class Acceptance:
    """The streams of one clock, as far as they have come."""

    streams: Mapping[str, Stream]
    #: Microseconds after which a silent stream is not waited for; None: it always is.
    idle_timeout: int | None
    #: Everything that ends before it has been answered; None before the first event.
    watermark: int | None = None
    highest: dict[str, int] = field(default_factory=dict)
    #: When each stream last said something, or was first waited for.
    heard: dict[str, int] = field(default_factory=dict)

    def restart(self) -> None:
        """Nothing ran for a while: silence counts from the next batch on."""
        self.heard = {}

    def batch(self, ends: Mapping[str, Sequence[int]], now: int) -> dict[str, list[bool]]:
        """Take the events of a batch by when they end; of each whether it is late."""
        late = {
            name: [self.watermark is not None and end < self.watermark for end in found]
            for name, found in ends.items()
        }
        for name, stream in self.streams.items():
            self.heard.setdefault(name, now)
            if stream.has_own_time and ends.get(name):
                self.heard[name] = now
                self.highest[name] = max([*ends[name], *self._highest(name)])
        for moved in (self._slowest(now), self._end_of_silence(now)):
            if moved is not None:
                self.watermark = max(moved, moved if self.watermark is None else self.watermark)
        return late

    def _highest(self, name: str) -> list[int]:
        return [self.highest[name]] if name in self.highest else []

    def _slowest(self, now: int) -> int | None:
        """The smallest mark; None if nobody has one, or somebody is waited for who has none."""
        marks: list[int | None] = []
        for name, stream in self.streams.items():
            if not stream.has_own_time:
                marks.append(now)
            elif not self._is_silent(name, self.idle_timeout, now):
                marks.append(self.highest[name] - stream.lateness if name in self.highest else None)
        known = [mark for mark in marks if mark is not None]
        return min(known) if known and len(known) == len(marks) else None

    def _end_of_silence(self, now: int) -> int | None:
        """Just after the newest event, if all streams have been silent for long enough."""
        timed = [name for name, stream in self.streams.items() if stream.has_own_time]
        if not all(self._is_silent(name, self._patience(name), now) for name in timed):
            return None
        return max(self.highest.values()) + 1 if self.highest else None

    def _patience(self, name: str) -> int | None:
        """How long silence must last: the timeout, and no less than the lateness as a time."""
        stream, timeout = self.streams[name], self.idle_timeout
        if timeout is None or stream.unit == TICKS:
            return timeout
        return max(timeout, stream.lateness)

    def _is_silent(self, name: str, patience: int | None, now: int) -> bool:
        return patience is not None and now - self.heard[name] >= patience
