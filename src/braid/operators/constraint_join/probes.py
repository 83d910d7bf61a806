"""How joins with constraints look rows up, whatever they hold rows in: orders of probes, and where
kernels find all of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.jit.runtime import address
from braid.operators.constraint_join.kernels import frame as frames
from braid.operators.constraint_join.kernels import store as stores
from braid.operators.constraint_join.kernels.spill_filter import KNOWN, know
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.core.values import Words
from braid.operators.join.probe_orders import Key, Lookup, Orders


class KnownKeys:
    """Keys that are known not to be aside, in a table that forgets them when others need the place.

    An event that asks for several must find all of them there, or it would ask in turn for two that
    have one place, without end: the table grows when it asks for one again. What other events have
    asked for may be aside again by then.
    """

    def __init__(self) -> None:
        self.table = self._empty(KNOWN)
        self._asked: set[tuple[int, int]] = set()
        self._event: tuple[int, ...] = ()

    @staticmethod
    def _empty(places: int) -> Words:
        table: Words = np.zeros(1 + places, np.int64)
        table[0] = places - 1
        return table

    def begin(self) -> None:
        """A batch comes: its events are numbered anew, and none of them has asked for anything."""
        self._asked, self._event = set(), ()

    def note(self, index: int, hash_: int, event: tuple[int, ...]) -> None:
        """What an event of the batch has asked for has been brought back."""
        if event != self._event:
            self._asked, self._event = set(), event
        if (index, hash_) in self._asked:
            self.table = self._empty(2 * (len(self.table) - 1))
            for key in self._asked:
                know(self.table, *key)
        self._asked.add((index, hash_))
        know(self.table, index, hash_)

    def forget(self) -> None:
        self.table[1:] = 0
        self.begin()


class ProbedStores:
    """The stores of a join and their indexes, and the probes that an event of each input makes."""

    #: What each index is for: None if no probe asks it.
    lookups: Sequence[Lookup | None]
    indexes: Words

    def __init__(self, spec: ConstraintJoinSpec, keys: Sequence[Key], frame_words: int) -> None:
        self._spec, self._keys = spec, keys
        self.count = count = len(spec.inputs)
        self.frame: Words = np.zeros(frame_words, np.int64)
        self.frame[frames.NOW] = -(2**63)
        self.feeds: Words = np.zeros((count, frames.FEED_WORDS), np.int64)
        # Behind the stores lies what is counted of all inputs together.
        behind: Words = np.zeros((count + 1, stores.STORE_WORDS), np.int64)
        self.stores: Words = behind[:count]
        self.whole: Words = behind[count]
        #: Rows that have come to each input, and to all.
        self.arrivals: Words = behind[:, stores.ARRIVALS]
        self._levels: Words = np.zeros((count, frames.LEVEL_WORDS), np.int64)
        self._bound: Words = np.zeros(count, np.int64)
        self._parts: list[Words] = []
        self.known = KnownKeys()
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
        """What rows of each input are asked by themselves."""
        for number, (shape, feed) in enumerate(zip(self._spec.inputs, self.feeds, strict=True)):
            checks = [w for key in self._keys for w in key.checks(number)]
            feed[frames.CHECKS_AT], feed[frames.CHECKS] = self._kept(checks), len(checks) // 4
            feed[frames.FEED_BYTES] = 8 * shape.layout.width

    def choose_orders(self) -> None:
        """Probe what finds least first, as far as there are indexes for it."""
        for lookup, record in zip(self.lookups, self.indexes, strict=True):
            if lookup is not None:
                measured = int(record[stores.PROBES]), int(record[stores.FOUND])
                self._planner.measured(lookup, *measured)
                record[[stores.PROBES, stores.FOUND]] = 0
        orders = self._planner.chosen([int(c) for c in self.stores[:, stores.COUNT]])
        known = all(probe.lookup in self.lookups for order in orders for probe in order)
        if known and orders != self._orders:
            self._orders = orders
            self._plan_probes()
            self._point()

    def _plan_probes(self) -> None:
        steps = np.zeros((self.count, self.count - 1, frames.STEP_WORDS), np.int64)
        for driver, order in enumerate(self._orders):
            for step, probe in zip(steps[driver], order, strict=True):
                step[frames.STEP_INPUT] = probe.lookup[0]
                step[frames.STEP_INDEX] = self.lookups.index(probe.lookup)
                step[frames.STEP_SOURCES] = self._kept([w for s in probe.sources for w in s])
        self._steps: Words = steps

    def _point(self) -> None:
        frame = self.frame
        frame[frames.INPUTS] = self.count
        frame[frames.STORES_AT] = address(self.stores)
        frame[frames.INDEXES_AT] = address(self.indexes)
        frame[frames.FEEDS_AT] = address(self.feeds)
        frame[frames.STEPS_AT] = address(self._steps)
        frame[frames.LEVELS_AT] = address(self._levels)
        frame[frames.BOUND_AT] = address(self._bound)
        self.point_known()

    def point_known(self) -> None:
        self.frame[frames.KNOWN_AT] = address(self.known.table)
