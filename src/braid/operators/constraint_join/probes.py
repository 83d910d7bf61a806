"""The frame of a constraint join, and the order in which it probes the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from braid.jit import records
from braid.jit.runtime import address
from braid.jit.vector import clear_vector
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels.records import (
    AbsentKeys,
    EventFeed,
    Frame,
    Index,
    Level,
    Step,
    Store,
    Watch,
)
from braid.operators.constraint_join.kernels.spill_filter import note_absent
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.join.kernels.frame import Bound
from braid.operators.join.probe_orders import Key, Lookup, Orders

#: Places of a table of absent keys, at first: a power of two.
_PLACES = 4096


class AbsentKeyTable:
    """Keys of which no row is on disk, in a table that forgets a key when another one needs its place.

    An event that looks up several keys must find all of them there, or it would ask in turn for two that
    have one place, without end: the table grows when the event asks for a key again. Rows with the keys
    that other events asked for may be on disk again by then.
    """

    def __init__(self) -> None:
        self._make(_PLACES)
        self._asked: set[tuple[int, int]] = set()
        self._event: tuple[int, ...] = ()

    def _make(self, places: int) -> None:
        self.entries: Words = np.zeros(places, np.int64)
        self._record = records.filled(AbsentKeys, entries=self.entries, mask=places - 1)
        self.keys = AbsentKeys.at(self._record)

    def begin(self) -> None:
        """A batch comes: its events are numbered from the start, and none has asked for a key."""
        self._asked, self._event = set(), ()

    def note(self, index: int, hash_: int, event: tuple[int, ...]) -> None:
        """The rows of a key that an event of the batch asked for are in memory again."""
        if event != self._event:
            self._asked, self._event = set(), event
        if (index, hash_) in self._asked:
            self._make(2 * len(self.entries))
            for key in self._asked:
                note_absent(self.keys, *key)
        self._asked.add((index, hash_))
        note_absent(self.keys, index, hash_)

    def forget(self) -> None:
        self.entries[:] = 0
        self.begin()


_F = TypeVar("_F", bound=Frame)


class ProbedStores(Generic[_F]):
    """The stores of a join and their indexes, and the probes that an event of each input makes."""

    #: What each index is for: None if no probe asks it.
    lookups: Sequence[Lookup | None]
    indexes: Records

    def __init__(self, spec: ConstraintJoinSpec, keys: Sequence[Key], frame_type: type[_F]) -> None:
        self._spec, self._keys = spec, keys
        self.count = count = len(spec.inputs)
        self._frame = np.zeros(1, frame_type.dtype)
        self.frame = frame_type.at(self._frame)
        self.frame.now = -(2**63)
        self.feeds: Records = np.zeros(count, EventFeed.dtype)
        # Behind the stores lies what is counted of all inputs together.
        behind: Records = np.zeros(count + 1, Store.dtype)
        self.stores: Records = behind[:count]
        self.all_inputs = behind[count]
        #: Rows that have come to each input, and to all.
        self.arrivals: Words = behind["arrivals"]
        self._levels = np.zeros(count, Level.dtype)
        self._bound: Words = np.zeros(count, np.int64)
        self._parts: list[Words] = []
        self.absent = AbsentKeyTable()
        self._planner = Orders(keys, count)
        self._orders = self._planner.chosen([0] * count)

    def _kept(self, values: Sequence[int]) -> int:
        part = np.array([*values, 0], np.int64)
        self._parts.append(part)
        return int(address(part))

    def _key_columns(self, lookup: Lookup) -> list[int]:
        """Pairs of a column and whether it is a float."""
        number, chosen = lookup
        keys = [self._keys[k] for k in chosen]
        return [w for key in keys for w in (key.columns[number][0], int(key.floating))]

    def describe_feeds(self) -> None:
        """Describe what must hold of a row of each input by itself."""
        for number, (shape, feed) in enumerate(zip(self._spec.inputs, self.feeds, strict=True)):
            checks = [w for key in self._keys for w in key.checks(number)]
            feed["checks"], feed["check_count"] = self._kept(checks), len(checks) // 4
            feed["row_words"] = shape.layout.width

    def feed(self, rows: Sequence[Rows]) -> None:
        """Let these rows be the next ones of each input. They must live until they are taken."""
        for feed, own in zip(self.feeds, rows, strict=True):
            feed["rows"], feed["count"], feed["row"] = address(own), len(own), 0
        self.absent.begin()

    def choose_orders(self) -> None:
        """Probe what finds least first, as far as there are indexes for it."""
        for lookup, record in zip(self.lookups, self.indexes, strict=True):
            if lookup is not None:
                measured = int(record["probes"]), int(record["found"])
                self._planner.measured(lookup, *measured)
                record["probes"] = record["found"] = 0
        orders = self._planner.chosen([int(c) for c in self.stores["count"]])
        known = all(probe.lookup in self.lookups for order in orders for probe in order)
        if known and orders != self._orders:
            self._orders = orders
            self._plan_probes()
            self._point()

    def _plan_probes(self) -> None:
        steps = np.zeros((self.count, self.count - 1), Step.dtype)
        for driver, order in enumerate(self._orders):
            for step, probe in zip(steps[driver], order, strict=True):
                step["input"] = probe.lookup[0]
                step["index"] = self.lookups.index(probe.lookup)
                step["sources"] = self._kept([w for s in probe.sources for w in s])
        self._steps = steps

    def _point(self) -> None:
        frame = self.frame
        frame.inputs = self.count
        frame.stores = Store.at(self.stores)
        frame.indexes = Index.at(self.indexes)
        frame.feeds = EventFeed.at(self.feeds)
        frame.steps = Step.at(self._steps)
        frame.levels = Level.at(self._levels)
        frame.bound = Bound.at(self._bound)
        self.point_absent()

    def point_absent(self) -> None:
        self.frame.absent = self.absent.keys

    def release_vectors(self) -> None:
        """Give the memory back of what grows inside kernels."""
        frame = self.frame
        for vector in [frame.in_results, *(frame.stores[n].buffer for n in range(self.count))]:
            clear_vector(vector)

    def point_watches(self, watches: Records) -> None:
        """Let kernels find the watches, which must live as long as this."""
        self.frame.watches = Watch.at(watches)
        self.frame.watch_count = len(watches)
