"""One detection over its logs: the query equation and the verification, as arrays for kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from braid.jit.runtime import address
from braid.operators.core.values import Words
from braid.operators.detect.base_log import AnyLog, Ended
from braid.operators.detect.chains import BucketChains
from braid.operators.detect.kernels import answer as kernel
from braid.operators.detect.kernels.follow import LINK
from braid.operators.detect.kernels.keyed import stand
from braid.operators.detect.kernels.synopses import CELLS, ONE, TWO
from braid.operators.detect.kernels.verify import STEP
from braid.operators.detect.key_slots import SlotTable
from braid.operators.detect.keyed_log import KeyedLog, LaidOut
from braid.operators.detect.log import Log
from braid.operators.detect.spec import DetectionRecipe
from braid.operators.detect.verification_keys import Keys

#: What following an event of a batch to one input takes, in events of a synopsis.
_FOLLOWED = 8
#: Bitmaps are hung into chains by bucket if so many batches are to be answered in a round.
_HUNG = 8


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


class View:
    """The events of an input as they lie for kernels in one round, whoever asks. `cells`: gives the
    entries of a synopsis; `first`: what the first of them is called in chains; `new_chains`: makes
    those that are of this round only."""

    def __init__(
        self,
        cells: Callable[[int], np.ndarray],
        chains: Mapping[int, BucketChains] | None = None,
        keys: Keys | None = None,
        first: int = 0,
        new_chains: Callable[[int, np.ndarray], BucketChains] | None = None,
    ) -> None:
        self._make_cells, self._keys, self._first = cells, keys, first
        self._chains = dict(chains or {})
        self._new_chains = new_chains
        self._cells: dict[int, np.ndarray] = {}
        self._steps: dict[int, tuple[int, ...]] = {}

    def place(self, synopsis: int) -> int:
        """Where the entries of a synopsis lie."""
        if synopsis not in self._cells:
            self._cells[synopsis] = self._make_cells(synopsis)
        return address(self._cells[synopsis])

    def links(self, synopsis: int, turned: int) -> tuple[int, ...]:
        """Its chains."""
        if synopsis not in self._chains:
            assert self._new_chains is not None
            self._chains[synopsis] = self._new_chains(synopsis, self._cells[synopsis])
        return self._chains[synopsis].links(self._first, bool(turned))

    def kept(self) -> tuple[int, int]:
        """Where the events lie that are verified by, and how many words each has."""
        assert self._keys is not None
        return address(self._keys.kept), self._keys.kept.shape[1]

    def step(self, chains: int) -> tuple[int, ...]:
        assert self._keys is not None
        if chains not in self._steps:
            self._steps[chains] = self._keys.step(chains, self._first)
        return self._steps[chains]


class Asked(NamedTuple):
    """Batches that have ended: whose each is, when it ended, which events stand for each input, the
    slots of their keys; the events of the inputs; how many batches were left out as they are empty."""

    asking: Words
    instants: Words
    lows: np.ndarray
    highs: np.ndarray
    slots: Words
    views: Sequence[View]
    empty: int = 0


class Round:
    """What detections have in common in one round: each looks it up, the first finds it. `asked`: of
    those over the same logs; `views`: of those over one log."""

    def __init__(self) -> None:
        self.asked: dict[tuple[int, ...], Asked] = {}
        self.views: dict[int, View] = {}


class Detector(ABC, Generic[L]):
    """A member's detection. It has no state but its logs."""

    def __init__(self, recipe: DetectionRecipe, logs: Sequence[L]) -> None:
        self.recipe = recipe
        self.logs = list(logs)
        #: What became of all batches, for `explain` and `stats`.
        self.tally = np.zeros(kernel.TALLY, np.int64)
        #: The chains of both inputs of each edge, if answers may be verified.
        self._chains: list[dict[int, int]] = []
        self._over = (recipe.settings.may_verify, *map(id, logs))
        self._links = np.zeros((sum(len(p.inputs) for p in recipe.paths), 2 * LINK), np.int64)
        self._steps = np.zeros((len(logs) ** 2, STEP), np.int64)
        self._kept = np.zeros((len(logs), 2), np.int64)
        self._form = self._make_form()

    @abstractmethod
    def _look(self, ended: Sequence[Ended], round_: Round) -> Asked:
        """What is asked, and where the events lie that it is asked of."""

    @abstractmethod
    def _is_chained(self, batches: int) -> bool:
        """Whether so many batches are answered along chains by bucket."""

    @property
    def held_bytes(self) -> int:
        """What its logs hold for it."""
        logs = {id(log): log for log in self.logs}
        synopses: dict[int, set[int]] = {key: set() for key in logs}
        edges: dict[int, set[int]] = {key: set() for key in logs}
        for input_, synopsis, _ in self._synopses:
            synopses[id(self.logs[input_])].add(synopsis)
        for chains in self._chains:
            for input_, number in chains.items():
                edges[id(self.logs[input_])].add(number)
        return sum(log.bytes_for(synopses[key], edges[key]) for key, log in logs.items())

    @property
    def holds_too_much(self) -> bool:
        limit = self.recipe.settings.memory
        return limit is not None and self.held_bytes > limit

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._form)

    # ---- how it is multiplied out ----

    def _make_form(self) -> kernel.Form:
        """The order is fixed here: from both ends of each path towards the batch."""
        recipe = self.recipe
        rows, starts, entries = [], [0], []
        #: The synopsis at each position: whose, its number, whether it lies the other way round.
        self._synopses: list[tuple[int, int, int]] = []
        self._room = 1
        for number, path in enumerate(recipe.paths):
            for position, input_ in enumerate(path.inputs):
                dimensions = recipe.dimensions(number, position)
                synopsis, flipped = self.logs[input_].synopsis(
                    dimensions, not recipe.settings.counts
                )
                sizes = [d.buckets for d in dimensions]
                rows.append((input_, 0, int(flipped), ONE if len(sizes) == 1 else TWO, max(sizes)))
                self._synopses.append((input_, synopsis, int(flipped)))
                entries.append(int(np.prod(sizes)))
                self._room = max(self._room, *sizes)
            starts.append(len(rows))
        on = np.zeros((len(recipe.paths), len(recipe.sources)), np.bool_)
        for number, path in enumerate(recipe.paths):
            on[number, list(path.inputs)] = True
        edges, columns = self._make_edges() if recipe.settings.may_verify else ([], [])
        return kernel.Form(
            np.array(rows, np.int64),
            np.array(starts, np.int64),
            np.array(entries, np.int64),
            on,
            np.array(edges, np.int64).reshape(-1, 4),
            np.array(columns, np.int64),
        )

    def _make_edges(self) -> tuple[list[tuple[int, int, int, int]], list[int]]:
        compared = self.recipe.compared()
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
        #: Which chains each step goes along.
        self._places: list[tuple[int, tuple[int, int]]] = []
        for root in range(len(self.logs)):
            for step, (number, by) in enumerate(self._order(root), root * len(self.logs)):
                self._steps[step, :2] = number, by
                if number != root:
                    self._places.append((step, (number, self._chains[by][number])))
        return rows, columns

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

    def answer(self, ended: Sequence[Ended], round_: Round) -> Answers:
        """The answers to the batches of each input that have ended."""
        if self._over not in round_.asked:
            round_.asked[self._over] = self._look(ended, round_)
        asking, instants, lows, highs, slots, views, empty = round_.asked[self._over]
        self.tally[[kernel.BATCHES, kernel.ZEROS]] += empty
        count, settings = len(asking), self.recipe.settings
        bounds, packing = np.empty(count, np.int64), np.empty(count, np.float64)
        flags = np.empty(count, np.uint8)
        said = kernel.Said(bounds, packing, flags, self.tally)
        chained = self._is_chained(count)
        manner = kernel.Manner(
            int(settings.counts), int(settings.may_verify), int(chained), self._room, _FOLLOWED
        )
        threshold = 0.0 if settings.packing is None else settings.packing
        kernel.answer(
            self._form, self._lying(views, chained), manner, threshold, asking, lows, highs, said
        )
        kept = np.flatnonzero(flags & kernel.KEPT)
        verified = (flags[kept] & kernel.ASKED) != 0
        whose = slots[kept] if len(slots) else slots
        return Answers(asking[kept], instants[kept], bounds[kept], verified, packing[kept], whose)

    def _lying(self, views: Sequence[View], chained: bool) -> kernel.Lying:
        """Where everything lies that the kernel looks at, as it is now."""
        positions = self._form.positions
        for place, (input_, synopsis, turned) in enumerate(self._synopses):
            positions[place, CELLS] = views[input_].place(synopsis)
            if chained:
                self._links[place] = views[input_].links(synopsis, turned)
        if self.recipe.settings.may_verify:
            for number, view in enumerate(views):
                self._kept[number] = view.kept()
            for place, (number, chains) in self._places:
                self._steps[place, 2:] = views[number].step(chains)
        return kernel.Lying(self._links, self._steps, self._kept)


class WholeDetector(Detector[Log]):
    """Of all events of its inputs."""

    def _is_chained(self, batches: int) -> bool:
        """Chains of bitmaps are of this round: they are worth it for several batches."""
        settings = self.recipe.settings
        return self.logs[0].has_chains and (settings.counts or batches >= _HUNG)

    def _look(self, ended: Sequence[Ended], round_: Round) -> Asked:
        logs, views = self.logs, []
        for log in logs:
            if id(log) not in round_.views:
                round_.views[id(log)] = View(
                    log.cells_of, log.chains, log.keys, log.first, log.new_chains
                )
            views.append(round_.views[id(log)])
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
        return Asked(asking, instants, lows, highs, np.zeros(0, np.int64), views)


class KeyedDetector(Detector[KeyedLog]):
    """Of each value of a key by itself: the events of the keys that ask are laid out one key after
    the other, and then a batch looks at those of its own."""

    def __init__(self, recipe: DetectionRecipe, logs: Sequence[KeyedLog], table: SlotTable) -> None:
        super().__init__(recipe, logs)
        self._table = table

    def _is_chained(self, batches: int) -> bool:
        return False

    def _look(self, ended: Sequence[Ended], round_: Round) -> Asked:
        asking = np.concatenate([np.full(len(e.began), i, np.int64) for i, e in enumerate(ended)])
        began = np.concatenate([e.began for e in ended])
        instants = np.concatenate([e.ended for e in ended])
        slots = np.concatenate([e.slots for e in ended])
        # Where an input has nothing of a key there is no result, and nothing to look at.
        there = np.logical_and.reduce([log.held(slots) > 0 for log in self.logs])
        empty = int(np.count_nonzero(~there))
        asking, slots = asking[there], slots[there]
        batches = np.stack([began[there], instants[there]], axis=1)
        distinct, whose = self._table.numbered(slots)
        laid = {id(log): log.laid_out(distinct) for log in self.logs}
        keys = {id(log): self._hung(log, laid[id(log)]) for log in self.logs}
        views = [View(laid[id(g)].cells.__getitem__, keys=keys[id(g)]) for g in self.logs]
        lows = np.empty((len(asking), len(self.logs)), np.int64)
        highs = np.empty_like(lows)
        for number, log in enumerate(self.logs):
            own = laid[id(log)]
            stand(number, asking, whose, batches, own.starts, own.times, lows, highs)
        return Asked(asking, batches[:, 1], lows, highs, slots, views, empty)

    def _hung(self, log: KeyedLog, laid: LaidOut) -> Keys | None:
        return log.keys(laid) if self.recipe.settings.may_verify else None
