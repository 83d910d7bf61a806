"""What a detection keeps of one input: entries of synopses, batches, and keys to verify by.

A *log* is of the events of one node of a channel that count, under one window, cut into batches
in one way. Events are numbered as they come; of each the log has its entry in every synopsis that
some member asks for (4 bytes each; bitmaps are held in bits, `bitmaps.py`) and, if answers
may be verified, when it came and left its window, and its join attributes. Batches that nobody can
need any more are dropped as a whole: so a window by time or by rows needs no event of its own to be
taken out of a synopsis, and bitmaps need not be decremented.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from braid.algebra.detection import NEVER
from braid.algebra.detection_memory import FEW
from braid.errors import damaged
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.values import Words
from braid.operators.detect.base_log import AnyLog, Arrived, Ended, LogKey, check_cells
from braid.operators.detect.bitmaps import Bitmaps
from braid.operators.detect.chains import BucketChains
from braid.operators.detect.growable import room, shifted
from braid.operators.detect.kernels import synopses as kernel
from braid.operators.detect.spec import Dimension
from braid.operators.detect.verification_keys import Keys


class Log(AnyLog):
    def __init__(self, key: LogKey, node: int, unit: str) -> None:
        super().__init__(key, node, unit)
        #: Chains by the buckets of each synopsis that counts, if batches are of few events.
        self.chains: dict[int, BucketChains] = {}
        #: The synopses that are bitmaps; these have no cells.
        self.bitmaps: dict[int, Bitmaps] = {}
        #: What answers are verified by, if any are.
        self.keys: Keys | None = None
        #: The number of the first event that is kept, and of the next one.
        self.first, self.next = 0, 0
        #: How many events have come that move a window by rows.
        self._rows = 0
        self._under_way = np.zeros(3, np.int64)
        #: Batches: number of the first event; of the last one, when it left and, for windows by
        #: rows, its position.
        self._begins: Words = np.zeros(0, np.int64)
        self._lasts: Words = np.zeros(0, np.int64)
        self._leaves: Words = np.zeros(0, np.int64)
        #: How many batches had ended when `take` was last called, and when the others did.
        self._over = 0
        self._ended: Words = np.zeros(0, np.int64)
        self._ends: Words = np.zeros(0, np.int64)

    # ---- what is kept ----

    @property
    def _holds_bits(self) -> bool:
        return True

    def _add_synopsis(self, dimensions: tuple[Dimension, ...], packed: bool) -> None:
        number = len(self.dimensions) - 1
        if packed:
            self.bitmaps[number] = Bitmaps(dimensions)
        elif self.has_chains:
            self.chains[number] = BucketChains(dimensions)

    @property
    def has_chains(self) -> bool:
        return self.key.batch <= FEW

    def keep(self, columns: Sequence[str]) -> int:
        """Verification needs these columns; the number of the chains by them."""
        if self.keys is None:
            self.keys = Keys(self.key.size if self.key.kind == "rows" else None)
        fresh = self.next == self.first
        assert fresh or set(columns) <= set(self.keys.columns), "a log that has begun keeps no more"
        return self.keys.ask(columns)

    @property
    def key_columns(self) -> Sequence[str]:
        return () if self.keys is None else self.keys.columns

    def place(self, number: int) -> int:
        """Where an event of this number lies."""
        return number - self.first

    @property
    def waits_since(self) -> int | None:
        """When the batch under way began."""
        return int(self._under_way[kernel.FIRST]) if self._under_way[kernel.OPEN] else None

    def is_due(self, bound: int) -> bool:
        """Whether the batch under way ends before an instant though nothing comes."""
        since, within = self.waits_since, self.key.within
        if since is None:
            return False
        return (max(since, self._last) if within is None else since + within) < bound

    # ---- events ----

    def take(
        self,
        arrived: Arrived,
        buckets: Mapping[Dimension, Words],
        keys: Mapping[str, Words],
        bound: int,
    ) -> Ended:
        """New events, with their buckets and, to verify, their keys; the batches that have ended."""
        ends = arrived.ends[arrived.counting]
        self._ends = ends
        self._append(arrived, ends, buckets, keys)
        out = np.empty((len(ends) + 2, 3), np.int64)
        was_open = bool(self._under_way[kernel.OPEN])
        within = -1 if self.key.within is None else self.key.within
        count = kernel.cut_batches(
            ends, self._under_way, self.key.batch, within, self._last, bound, out
        )
        ended = self._note(arrived, ends, out[:count], was_open)
        self.next += len(ends)
        self._rows += len(arrived.ends)
        self._resolve(arrived.ends)
        return ended

    def _append(
        self,
        arrived: Arrived,
        ends: Words,
        buckets: Mapping[Dimension, Words],
        keys: Mapping[str, Words],
    ) -> None:
        held, count = self.next - self.first, len(ends)
        if not count:
            return
        for number, dimensions in enumerate(self.dimensions):
            cells = buckets[dimensions[0]][arrived.counting]
            for dimension in dimensions[1:]:
                cells = (cells << kernel.HALF) | buckets[dimension][arrived.counting]
            if number in self.bitmaps:
                self.bitmaps[number].add(cells)
                continue
            self.cells[number] = room(self.cells[number], held, count)
            self.cells[number][held : held + count] = cells
            if self.has_chains:
                own = self.cells[number]
                self.chains[number].hang(own, held, held + count, self.first)
        if self.keys is not None:
            words = {name: keys[name][arrived.counting] for name in self.keys.columns}
            self.keys.append(held, self.first, (ends, self._left(ends)), words)
            if self.key.kind == "rows":
                self.keys.place(held, self._rows + 1 + arrived.counting)

    def _note(self, arrived: Arrived, ends: Words, found: np.ndarray, was_open: bool) -> Ended:
        """Remember the batches that have ended, and the one that has not."""
        upto = found[:, kernel.UPTO]
        still_open = bool(self._under_way[kernel.OPEN])
        stops = np.append(upto, len(ends)) if still_open else upto
        starts = np.concatenate([[0], stops[:-1]]).astype(np.int64)[: len(stops)]
        positions = self._rows + 1 + arrived.counting
        filled = stops > starts
        last = np.maximum(stops - 1, 0)
        places = positions[last] if len(ends) else np.zeros(len(stops), np.int64)
        leaves = self._left(ends)[last] if len(ends) else np.full(len(stops), NEVER, np.int64)
        begins = self.next + starts
        self._over = len(self._begins) - was_open
        if was_open and len(stops):
            # The first of them goes on with the batch that was under way.
            begins[0] = self._begins[-1]
            if not filled[0]:
                leaves[0] = self._leaves[-1]
                places[0] = self._lasts[-1] if self.key.kind == "rows" else 0
            self._begins, self._leaves = self._begins[:-1], self._leaves[:-1]
            self._lasts = self._lasts[:-1]
        self._begins = np.concatenate([self._begins, begins])
        self._leaves = np.concatenate([self._leaves, leaves])
        if self.key.kind == "rows":
            self._lasts = np.concatenate([self._lasts, places])
        instants = found[:, kernel.ENDED]
        self._ended = np.append(instants, NEVER) if still_open else instants
        count = len(found)
        return Ended(
            found[:, kernel.BEGAN], instants, begins[:count], self.next + upto.astype(np.int64)
        )

    def _resolve(self, ends: Words) -> None:
        """Of windows by rows: when the events left that as many later ones have come after."""
        if self.key.kind != "rows":
            return
        before = self._rows - len(ends)
        open_ = np.flatnonzero(
            (self._leaves == NEVER) & (self._lasts + self.key.size <= self._rows)
        )
        self._leaves[open_] = ends[self._lasts[open_] + self.key.size - before - 1]
        if self.keys is not None:
            self.keys.resolve(self.count, ends, self._rows)

    # ---- what stands in a synopsis ----

    def cells_of(self, synopsis: int) -> np.ndarray:
        """The entries of all events that are kept; those of bitmaps are made for this round."""
        bitmaps = self.bitmaps.get(synopsis)
        return self.cells[synopsis] if bitmaps is None else bitmaps.cells(self._begins)

    def new_chains(self, synopsis: int, cells: np.ndarray) -> BucketChains:
        """Chains for this round, of a synopsis that has none."""
        chains = BucketChains(self.dimensions[synopsis])
        chains.rehang(cells, len(cells), self.first)
        return chains

    def standing(self, began: Words, ended: Words) -> tuple[Words, Words]:
        """For batches that began and ended at these instants: which events stand for this input,
        by number, from the first to before the second."""
        high = self.next - len(self._ends) + np.searchsorted(self._ends, ended, "right")
        over = self._over + np.searchsorted(self._ended, ended, "right")
        gone = np.searchsorted(self._leaves, began, "right")
        skipped = np.minimum(over, gone)
        begins = np.append(self._begins, self.next)
        return np.minimum(begins[skipped], high), high

    def forget(self, horizon: int) -> None:
        """Drop the batches whose last event had left at this instant or before. The round is over:
        bitmaps are packed."""
        open_from = int(self._begins[-1]) if self._under_way[kernel.OPEN] else self.next
        for bitmaps in self.bitmaps.values():
            bitmaps.pack(self._begins, open_from)
        over = len(self._begins) - int(self._under_way[kernel.OPEN])
        gone = min(over, int(np.searchsorted(self._leaves, horizon, "right")))
        if gone:
            first = int(self._begins[gone]) if gone < len(self._begins) else self.next
            self._move(first)
            self._begins, self._leaves = self._begins[gone:].copy(), self._leaves[gone:].copy()
            self._lasts = self._lasts[gone:].copy()
        # As if `take` were called with nothing: it is not, unless something comes.
        self._over = len(self._begins) - int(self._under_way[kernel.OPEN])
        self._ends = self._ended = np.zeros(0, np.int64)

    def _move(self, first: int) -> None:
        low, high = first - self.first, self.next - self.first
        self.cells = [shifted(array, low, high) for array in self.cells]
        for chains in self.chains.values():
            chains.move(low, high)
        for bitmaps in self.bitmaps.values():
            bitmaps.forget(self._begins, first)
        if self.keys is not None:
            self.keys.move(low, high, first)
        self.first = first

    # ---- state ----

    @property
    def count(self) -> int:
        return self.next - self.first

    def _bytes_of(self, synopsis: int) -> int:
        if synopsis in self.bitmaps:
            return self.bitmaps[synopsis].nbytes
        chains = self.chains[synopsis].nbytes if self.has_chains else 0
        return self.cells[synopsis].nbytes + chains

    def bytes_for(self, synopses: Collection[int], edges: Collection[int]) -> int:
        batches = self._begins.nbytes + self._lasts.nbytes + self._leaves.nbytes
        keys = 0 if self.keys is None or not edges else self.keys.bytes_for(edges)
        return batches + keys + sum(map(self._bytes_of, synopses))

    @property
    def synopsis_bytes(self) -> int:
        return self.bytes_for(range(len(self.dimensions)), ())

    @property
    def key_bytes(self) -> int:
        return 0 if self.keys is None else self.keys.nbytes

    def saved(self) -> State:
        held = self.next - self.first
        state: State = {
            "numbers": np.array([self.first, self.next, self._rows], np.int64),
            "under_way": self._under_way.copy(),
            "begins": self._begins.copy(),
            "leaves": self._leaves.copy(),
            "lasts": self._lasts.copy(),
        }
        for number, name in enumerate(self._synopsis_names()):
            if number in self.bitmaps:
                own = self.bitmaps[number].saved()
                state |= {f"{name}/{part}": array for part, array in own.items()}
            else:
                cells = self.cells[number][:held]
                state[name] = np.resize(cells, held + held % 2).view(np.int64)
        if self.keys is not None:
            state |= self.keys.saved(held)
        return state

    def _check(self, state: State) -> None:
        """Events, batches and entries of synopses are as many as the numbers say, and in order."""
        checks.sized(state["numbers"], 3, "numbers of events")
        first, next_, rows = state["numbers"].tolist()
        checks.within(state["numbers"], 0, checks.NUMBERS, "numbers of events")
        held, begins, under_way = next_ - first, state["begins"], state["under_way"]
        checks.within(np.array([held]), 0, next_ + 1, "events that are kept")
        checks.sized(under_way, 3, "the batch under way")
        checks.within(under_way[[kernel.OPEN]], 0, min(len(begins), 1) + 1, "the batch under way")
        checks.within(under_way[[kernel.COUNT]], 0, checks.NUMBERS, "the batch under way")
        checks.within(begins, first, next_ + 1, "begins of batches")
        checks.ascending(begins, "begins of batches")
        checks.sized(state["leaves"], len(begins), "ends of batches")
        lasts = state["lasts"]
        checks.sized(lasts, len(begins) if self.key.kind == "rows" else 0, "rows of batches")
        checks.within(lasts, 0, rows + 1, "rows of batches")
        if (lasts[state["leaves"][: len(lasts)] == NEVER] + self.key.size <= rows).any():
            raise damaged("a batch has left its window and nobody knows when")
        for number, name in enumerate(self._synopsis_names()):
            if number in self.bitmaps:
                self.bitmaps[number].check(_bitmap(state, name), begins, first, next_)
            else:
                check_cells(state[name], held, self.dimensions[number])
        if self.keys is not None:
            self.keys.check(state, held, rows)

    def load(self, state: State) -> None:
        self._check(state)
        self.first, self.next, self._rows = (int(n) for n in state["numbers"])
        self._under_way = state["under_way"].copy()
        self._begins, self._leaves = state["begins"].copy(), state["leaves"].copy()
        self._lasts = state["lasts"].copy()
        held = self.next - self.first
        for number, name in enumerate(self._synopsis_names()):
            if number in self.bitmaps:
                self.bitmaps[number].load(_bitmap(state, name), self._begins)
            else:
                self.cells[number] = state[name].view(np.int32)[:held].copy()
        for number, chains in self.chains.items():
            chains.move(0, 0)
            chains.rehang(self.cells[number], held, self.first)
        if self.keys is not None:
            self.keys.load(state, held, self.first)
        self.forget(-(2**63))


def _bitmap(state: State, name: str) -> State:
    return {part: state[f"{name}/{part}"] for part in ("bits", "at")}
