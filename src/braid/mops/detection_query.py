"""One detection over its logs: the query equation and the verification, as arrays for kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from braid.kernels import detection as kernel
from braid.kernels.detection_bits import find_paths
from braid.kernels.detection_follow import follow_paths
from braid.kernels.detection_keyed import stand
from braid.kernels.detection_verify import STEP, verify
from braid.kernels.runtime import address
from braid.mops.detection_base import AnyLog, Ended
from braid.mops.detection_chains import BucketChains
from braid.mops.detection_keyed import KeyedLog, LaidOut
from braid.mops.detection_keys import Keys
from braid.mops.detection_log import Log
from braid.mops.detection_slots import SlotTable
from braid.mops.values import Words
from braid.plan.detection import DetectionRecipe

#: What following an event of a batch to one input takes, in events of a synopsis.
_FOLLOWED = 8


L = TypeVar("L", bound=AnyLog)


class Answers(NamedTuple):
    """For batches that have, or may have, a result: the input, the instant, what is said; and the
    slots of their keys, if they are of keys."""

    inputs: Words
    instants: Words
    bounds: Words
    verified: np.ndarray
    packing: np.ndarray
    slots: Words


class Asked(NamedTuple):
    """Batches that have ended: whose each is, when it ended, which events stand for each input."""

    asking: Words
    instants: Words
    lows: np.ndarray
    highs: np.ndarray
    slots: Words


@dataclass
class View:
    """The events of an input as they lie for kernels. `first`: what the first of them is called in
    chains."""

    cells: Sequence[np.ndarray]
    chains: Sequence[BucketChains]
    keys: Keys | None
    first: int


class Tally:
    """What became of all batches, for `explain` and `stats`."""

    def __init__(self) -> None:
        self.batches = self.zeros = self.verified = self.refuted = self.unverified = 0


class Detector(ABC, Generic[L]):
    """A member's detection. It has no state but its logs."""

    def __init__(self, recipe: DetectionRecipe, logs: Sequence[L]) -> None:
        self.recipe = recipe
        self.logs = list(logs)
        self.tally = Tally()
        self._views: list[View] = []
        self._make_positions()
        if recipe.settings.may_verify:
            self._make_edges()

    @abstractmethod
    def _look(self, ended: Sequence[Ended]) -> Asked:
        """What is asked, and where the events lie that it is asked of."""

    @property
    def held_bytes(self) -> int:
        """What its logs hold, of others who read them as well."""
        logs = {id(log): log for log in self.logs}.values()
        return sum(log.synopsis_bytes + log.key_bytes for log in logs)

    @property
    def holds_too_much(self) -> bool:
        limit = self.recipe.settings.memory
        return limit is not None and self.held_bytes > limit

    @property
    def nbytes(self) -> int:
        return self._positions.nbytes + self._starts.nbytes + self._on.nbytes

    # ---- how it is multiplied out ----

    def _make_positions(self) -> None:
        """The order is fixed here: from both ends of each path towards the batch."""
        recipe = self.recipe
        rows, starts, self._synopses = [], [0], []
        self._entries: list[tuple[int, int]] = []
        self._room = 1
        for number, path in enumerate(recipe.paths):
            for position, input_ in enumerate(path.inputs):
                dimensions = recipe.dimensions(number, position)
                synopsis, flipped = self.logs[input_].synopsis(dimensions)
                sizes = [d.buckets for d in dimensions]
                kind = kernel.ONE if len(sizes) == 1 else kernel.TWO
                rows.append((input_, 0, int(flipped), kind, max(sizes)))
                self._synopses.append((input_, synopsis))
                self._entries.append((input_, int(np.prod(sizes))))
                self._room = max(self._room, *sizes)
            starts.append(len(rows))
        self._positions = np.array(rows, np.int64)
        self._starts = np.array(starts, np.int64)
        self._on = np.zeros((len(recipe.paths), len(recipe.sources)), np.bool_)
        for number, path in enumerate(recipe.paths):
            self._on[number, list(path.inputs)] = True

    def _make_edges(self) -> None:
        recipe = self.recipe
        #: The chains of both inputs of each edge.
        compared = recipe.compared()
        self._chains = [
            {n: self.logs[n].keep(edge.columns(n)) for n in (edge.first, edge.second)}
            for edge in compared
        ]
        rows: list[tuple[int, int, int, int]] = []
        columns: list[int] = []
        for edge in compared:
            rows.append((edge.first, edge.second, len(edge.first_columns), len(columns)))
            for number in (edge.first, edge.second):
                known = list(self.logs[number].key_columns)
                columns += [known.index(name) for name in edge.columns(number)]
        self._edges = np.array(rows, np.int64)
        self._columns = np.array(columns, np.int64)
        self._orders = [self._order(number) for number in range(len(self.logs))]

    def _keys(self, number: int) -> Keys:
        keys = self._views[number].keys
        assert keys is not None
        return keys

    def _order(self, root: int) -> list[tuple[int, int]]:
        """The other inputs as they are reached from one, each with the edge that it is found by."""
        found = {root: 0}
        todo = [root]
        for number in todo:
            for place, edge in enumerate(self.recipe.edges):
                if number in (edge.first, edge.second):
                    other = edge.second if number == edge.first else edge.first
                    if other not in found:
                        found[other] = place
                        todo.append(other)
        return [(number, found[number]) for number in todo]

    # ---- answers ----

    def answer(self, ended: Sequence[Ended]) -> Answers:
        """The answers to the batches of each input that have ended."""
        asking, instants, lows, highs, slots = self._look(ended)
        sizes = highs - lows
        packing = self._packing(sizes)
        threshold = self.recipe.settings.packing
        asked = np.zeros(len(asking), np.bool_) if threshold is None else packing > threshold
        first = asked & self._is_cheap(asking, sizes)
        true = self._verified(first, asking, lows, highs)
        bounds = self._bounds(asking, lows, highs, ~first | true, true)
        later = asked & ~first & (bounds > 0)
        true |= self._verified(later, asking, lows, highs)
        kept = (bounds > 0) & (true | ~asked)
        self._count(bounds, first | later, kept)
        said = (asking, instants, bounds, asked, packing)
        return Answers(*(part[kept] for part in said), slots[kept] if len(slots) else slots)

    def _is_cheap(self, asking: Words, sizes: np.ndarray) -> np.ndarray:
        """Whether following the events of a batch takes less than multiplying the synopses out. An
        answer is the same whichever is done first: what one of them finds empty is no answer."""
        own = sizes[np.arange(len(asking)), asking]
        return _FOLLOWED * own * len(self.logs) < sizes.sum(axis=1) - own

    def _bounds(
        self,
        asking: Words,
        lows: np.ndarray,
        highs: np.ndarray,
        wanted: np.ndarray,
        true: np.ndarray,
    ) -> Words:
        """Of the batches that are wanted; what bitmaps would say is known of those that are true."""
        bounds = true.astype(np.int64)
        counts_events = self.recipe.settings.counts
        rows = np.flatnonzero(wanted if counts_events else wanted & ~true)
        if not len(rows):
            return bounds
        for place, (input_, synopsis) in enumerate(self._synopses):
            cells = self._views[input_].cells[synopsis]
            self._positions[place, kernel.CELLS] = address(cells)
        lows, highs = lows[rows], highs[rows]
        counts = self._counted(asking[rows], lows, highs)
        found = np.zeros(len(rows), np.int64)
        kernel.least_bounds(counts, self._on, highs - lows, found)
        bounds[rows] = found
        return bounds

    def _counted(self, asking: Words, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """The sequences of each path for each batch: from the batch outwards where that takes less
        than to multiply all synopses out."""
        positions, starts = self._positions, self._starts
        counts = np.zeros((len(asking), len(starts) - 1), np.int64)
        done = np.zeros(len(asking), np.bool_)
        views = self._views
        if views[0].chains:
            links = np.array(
                [
                    views[input_].chains[synopsis].links(views[input_].first, bool(turned))
                    for (input_, synopsis), turned in zip(
                        self._synopses, positions[:, kernel.FLIPPED], strict=True
                    )
                ],
                np.int64,
            )
            room = self._room
            follow_paths(positions, links, starts, asking, lows, highs, room, counts, done)
        left = np.flatnonzero(~done)
        if len(left):
            some = np.zeros((len(left), len(starts) - 1), np.int64)
            evaluate = kernel.count_paths if self.recipe.settings.counts else find_paths
            evaluate(positions, starts, asking[left], lows[left], highs[left], self._room, some)
            counts[left] = some
        return counts

    def _packing(self, sizes: np.ndarray) -> np.ndarray:
        """The mean of events by entries, added up in the order of the positions."""
        total = np.zeros(len(sizes))
        for input_, entries in self._entries:
            total += sizes[:, input_] / entries
        return total / len(self._entries)

    def _verified(
        self, asked: np.ndarray, asking: Words, lows: np.ndarray, highs: np.ndarray
    ) -> np.ndarray:
        """Which of the batches that are asked for have a result."""
        flags = asked.copy()
        if asked.any():
            events = [self._keys(number).kept for number in range(len(self.logs))]
            kept = np.array([(address(array), array.shape[1]) for array in events], np.int64)
            steps = np.concatenate([self._steps(root) for root in range(len(self.logs))])
            verify(self._edges, self._columns, steps, kept, asking, lows, highs, flags)
        return flags

    def _steps(self, root: int) -> np.ndarray:
        steps = np.zeros((len(self.logs), STEP), np.int64)
        for place, (number, edge) in enumerate(self._orders[root]):
            steps[place, :2] = number, edge
            if place:
                chains = self._chains[edge][number]
                steps[place, 2:] = self._keys(number).step(chains, self._views[number].first)
        return steps

    def _count(self, bounds: Words, asked: np.ndarray, kept: np.ndarray) -> None:
        tally = self.tally
        tally.batches += len(bounds)
        tally.zeros += int(np.count_nonzero((bounds == 0) & ~asked))
        tally.verified += int(np.count_nonzero(asked))
        tally.refuted += int(np.count_nonzero(asked & ~kept))
        tally.unverified += int(np.count_nonzero(kept & ~asked))


class WholeDetector(Detector[Log]):
    """Of all events of its inputs."""

    def _look(self, ended: Sequence[Ended]) -> Asked:
        logs = self.logs
        self._views = [View(log.cells, log.chains, log.keys, log.first) for log in logs]
        asking = np.concatenate([np.full(len(e.began), i, np.int64) for i, e in enumerate(ended)])
        began = np.concatenate([e.began for e in ended])
        instants = np.concatenate([e.ended for e in ended])
        lows = np.empty((len(asking), len(logs)), np.int64)
        highs = np.empty_like(lows)
        for number, log in enumerate(logs):
            low, high = log.standing(began, instants)
            own = asking == number
            low[own], high[own] = ended[number].low, ended[number].high
            lows[:, number], highs[:, number] = low - log.first, high - log.first
        return Asked(asking, instants, lows, highs, np.zeros(0, np.int64))


class KeyedDetector(Detector[KeyedLog]):
    """Of each value of a key by itself: the events of the keys that ask are laid out one key after
    the other, and then a batch looks at those of its own."""

    def __init__(self, recipe: DetectionRecipe, logs: Sequence[KeyedLog], table: SlotTable) -> None:
        super().__init__(recipe, logs)
        self._table = table

    def _look(self, ended: Sequence[Ended]) -> Asked:
        asking = np.concatenate([np.full(len(e.began), i, np.int64) for i, e in enumerate(ended)])
        began = np.concatenate([e.began for e in ended])
        instants = np.concatenate([e.ended for e in ended])
        slots = np.concatenate([e.slots for e in ended])
        # Where an input has nothing of a key there is no result, and nothing to look at.
        there = np.logical_and.reduce([log.held(slots) > 0 for log in self.logs])
        alone = int(np.count_nonzero(~there))
        self.tally.batches += alone
        self.tally.zeros += alone
        asking, slots = asking[there], slots[there]
        batches = np.stack([began[there], instants[there]], axis=1)
        distinct, whose = self._table.numbered(slots)
        laid = {id(log): log.laid_out(distinct) for log in self.logs}
        keys = {id(log): self._hung(log, laid[id(log)]) for log in self.logs}
        self._views = [View(laid[id(g)].cells, (), keys[id(g)], 0) for g in self.logs]
        lows = np.empty((len(asking), len(self.logs)), np.int64)
        highs = np.empty_like(lows)
        for number, log in enumerate(self.logs):
            own = laid[id(log)]
            stand(number, asking, whose, batches, own.starts, own.times, lows, highs)
        return Asked(asking, batches[:, 1], lows, highs, slots)

    def _hung(self, log: KeyedLog, laid: LaidOut) -> Keys | None:
        return log.keys(laid) if self.recipe.settings.may_verify else None
