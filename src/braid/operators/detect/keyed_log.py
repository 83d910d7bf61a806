"""What a detection by key keeps of one input: the events of all keys in one slab.

As `log.py`, for each value of the key by itself: which batches there are and what has left
a window is known slot by slot (56 bytes for each), events lie where there is room, 28 bytes and more
for each (`operators/detect/kernels/keyed.py`). There is no object for a key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from braid.algebra.detection_memory import LEAST_ROOM
from braid.errors import damaged
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.detect.base_log import AnyLog, Arrived, Ended, LogKey, check_cells
from braid.operators.detect.kernels import keyed as kernel
from braid.operators.detect.kernels.synopses import HALF
from braid.operators.detect.kernels.verify import CAME, KEYS, LEFT
from braid.operators.detect.key_slots import SlotTable
from braid.operators.detect.spec import Dimension
from braid.operators.detect.verification_keys import Keys


class LaidOut(NamedTuple):
    """Events of some keys, one key after the other: where each key's begin, when they came and so
    on (`kernel.lay_out`), their entries, and what they are verified by."""

    starts: Words
    times: Rows
    cells: list[np.ndarray]
    events: Rows


class KeyedLog(AnyLog):
    def __init__(self, key: LogKey, node: int, unit: str, table: SlotTable) -> None:
        super().__init__(key, node, unit)
        self._table = table
        #: Which columns verification compares, at each edge that asks.
        self._columns: list[str] = []
        self._asked: list[tuple[str, ...]] = []
        self._reset()

    def _reset(self) -> None:
        self._events: Rows = np.zeros((0, self._width), np.int64)
        self._following = np.zeros(0, np.int32)
        self._slots: Rows = np.zeros((0, kernel.SLOT), np.int64)
        self._state = np.zeros(kernel.SLAB, np.int64)
        self._state[kernel.FREE], self._state[kernel.SOONEST] = -1, kernel.NEVER
        self.cells = [np.zeros(0, np.int32) for _ in self.cells]

    @property
    def _width(self) -> int:
        return KEYS + len(self._columns) + (2 if self.key.kind == "rows" else 1)

    @property
    def _rule(self) -> kernel.Rule:
        within = -1 if self.key.within is None else self.key.within
        rows = self.key.size if self.key.kind == "rows" else -1
        closed = KEYS + len(self._columns)
        return kernel.Rule(self.key.batch, within, self._last, rows, closed, closed + 1)

    @property
    def _slab(self) -> kernel.Slab:
        return kernel.Slab(self._events, self._following, self._slots, self._state)

    # ---- what is kept ----

    @property
    def _holds_bits(self) -> bool:
        # Each event has a place of its own, whichever batch of whichever key it is in.
        return False

    def _add_synopsis(self, dimensions: tuple[Dimension, ...], packed: bool) -> None:
        self.cells[-1] = np.zeros(len(self._events), np.int32)

    def keep(self, columns: Sequence[str]) -> int:
        wanted = tuple(columns)
        if wanted not in self._asked:
            new = [name for name in dict.fromkeys(wanted) if name not in self._columns]
            assert not (new and self.count), "a log that has begun keeps no more"
            self._columns += new
            self._asked.append(wanted)
            if new:
                self._reset()
        return self._asked.index(wanted)

    @property
    def key_columns(self) -> Sequence[str]:
        return self._columns

    def keys(self, laid: LaidOut) -> Keys:
        """Events that are laid out in chains, to verify by."""
        keys = Keys(None)
        for columns in self._asked:
            keys.ask(columns)
        keys.kept = laid.events
        keys.rehang(len(laid.events), 0)
        return keys

    def is_due(self, bound: int) -> bool:
        return int(self._state[kernel.SOONEST]) < bound

    def held(self, slots: Words) -> Words:
        """How many events there are of each of these keys."""
        self._make_room(0)
        return self._slots[slots, kernel.HELD]

    def waits_since(self, slots: np.ndarray) -> Words:
        """When the batches under way of these keys began; never where there is none."""
        self._make_room(0)
        places = self._slots[slots, kernel.OPEN]
        if not len(self._events):
            return np.full(len(slots), kernel.NEVER, np.int64)
        return np.where(places >= 0, self._events[np.maximum(places, 0), CAME], kernel.NEVER)

    # ---- events ----

    def take(
        self,
        arrived: Arrived,
        buckets: Mapping[Dimension, Words],
        keys: Mapping[str, Words],
        slots: np.ndarray,
        bound: int,
    ) -> Ended:
        """New events by key; the batches that have ended, of whichever key."""
        counting = np.zeros(len(slots), np.bool_)
        counting[arrived.counting] = True
        order, _ = self._table.together(slots)
        self._make_room(len(arrived.counting))
        times = np.stack([arrived.ends, self._left(arrived.ends)], axis=1)
        out = np.empty((int(self._state[kernel.WAITING]) + len(slots), 3), np.int64)
        placed = np.full(len(slots), -1, np.int32)
        rule = self._rule
        found = kernel.take(self._slab, rule, order, slots, times, counting, bound, placed, out)
        chosen = np.flatnonzero(placed >= 0)
        self._fill(placed[chosen], chosen, buckets, keys)
        ended = out[:found]
        return Ended(ended[:, kernel.BEGAN], ended[:, kernel.ENDED], slots=ended[:, kernel.WHOSE])

    def _fill(
        self,
        places: np.ndarray,
        chosen: Words,
        buckets: Mapping[Dimension, Words],
        keys: Mapping[str, Words],
    ) -> None:
        for number, dimensions in enumerate(self.dimensions):
            cells = buckets[dimensions[0]][chosen]
            for dimension in dimensions[1:]:
                cells = (cells << HALF) | buckets[dimension][chosen]
            self.cells[number][places] = cells
        for column, name in enumerate(self._columns):
            self._events[places, KEYS + column] = keys[name][chosen]

    def _make_room(self, count: int) -> None:
        """For so many more events, and for all slots."""
        have = len(self._slots)
        if have < self._table.size:
            more = np.full((self._table.size - have, kernel.SLOT), -1, np.int64)
            more[:, [kernel.HELD, kernel.COUNT, kernel.SEEN]] = 0
            self._slots = np.concatenate([self._slots, more])
        needed = int(self._state[kernel.LIVE]) + count
        if needed > len(self._events):
            self._resize(max(needed, LEAST_ROOM, 5 * len(self._events) // 4))

    def _resize(self, size: int) -> None:
        def larger(array: np.ndarray) -> np.ndarray:
            out = np.zeros((size, *array.shape[1:]), array.dtype)
            out[: len(array)] = array
            return out

        self._events, self._following = larger(self._events), larger(self._following)
        self.cells = [larger(array) for array in self.cells]

    def forget(self, slots: np.ndarray, horizons: Words) -> None:
        """Drop the batches of keys whose last event had left at an instant or before."""
        self._make_room(0)
        kernel.give_back(self._slab, self._rule, slots, horizons)

    def shrink(self) -> None:
        """Give back room that is much too large."""
        live = self.count
        if len(self._events) > max(LEAST_ROOM, 2 * live):
            everything = np.flatnonzero(self._slots[:, kernel.HELD] > 0).astype(np.int32)
            self._load(everything, self.laid_out(everything), self._slots[:, kernel.SEEN].copy())

    # ---- what stands in a synopsis ----

    def laid_out(self, slots: np.ndarray) -> LaidOut:
        """The events of these keys, each with all that is known of it."""
        total = int(self.held(slots).sum())
        starts, places = np.zeros(len(slots) + 1, np.int64), np.empty(total, np.int32)
        times = np.empty((total, 3), np.int64)
        kernel.lay_out(self._slab, self._rule, slots, starts, places, times)
        return LaidOut(starts, times, [cells[places] for cells in self.cells], self._events[places])

    # ---- state ----

    @property
    def count(self) -> int:
        return int(self._state[kernel.LIVE])

    @property
    def synopsis_bytes(self) -> int:
        return self.bytes_for(range(len(self.cells)), ())

    @property
    def key_bytes(self) -> int:
        return 8 * len(self._columns) * len(self._events)

    def bytes_for(self, synopses: Collection[int], edges: Collection[int]) -> int:
        columns = {name for edge in edges for name in self._asked[edge]}
        words = 8 * (self._width - len(self._columns) + len(columns)) * len(self._events)
        links = self._following.nbytes + sum(self.cells[number].nbytes for number in synopses)
        return words + links + self._slots.nbytes

    @property
    def needed(self) -> np.ndarray:
        """Which slots it has something of."""
        self._make_room(0)
        return self._slots[:, kernel.HELD] > 0

    def saved(self) -> State:
        everything = np.flatnonzero(self.needed).astype(np.int32)
        laid = self.laid_out(everything)
        state: State = {
            "slots": everything.astype(np.int64),
            "starts": laid.starts,
            "times": np.delete(laid.events, self._key_places, axis=1),
            "seen": self._slots[:, kernel.SEEN].copy(),
        }
        for place, name in zip(self._key_places, self._columns, strict=True):
            state[f"key/{name}"] = laid.events[:, place].copy()
        for name, cells in zip(self._synopsis_names(), laid.cells, strict=True):
            state[name] = np.resize(cells, len(cells) + len(cells) % 2).view(np.int64)
        return state

    @property
    def _key_places(self) -> range:
        """The words of an event that it is verified by."""
        return range(KEYS, KEYS + len(self._columns))

    def _check(self, state: State) -> None:
        """Each key has events, which lie one key after the other."""
        slots, starts, seen = state["slots"], state["starts"], state["seen"]
        times = checks.table(state, "times", self._width - len(self._columns))
        checks.within(slots, 0, self._table.size, "slots of keys")
        if (np.diff(slots) <= 0).any() or not self._table.used[slots].all():
            raise damaged("the slots of keys are not those that are used")
        checks.sized(starts, len(slots) + 1, "begins of keys")
        checks.offsets(starts, len(times), "begins of keys")
        if (np.diff(starts) <= 0).any():
            raise damaged("a key has no events")
        checks.within(np.array([len(seen)]), 0, self._table.size + 1, "rows of keys")
        checks.within(seen, 0, checks.NUMBERS, "rows of keys")
        for name in self._columns:
            checks.sized(state[f"key/{name}"], len(times), "values to verify by")
        for name, dimensions in zip(self._synopsis_names(), self.dimensions, strict=True):
            check_cells(state[name], len(times), dimensions)

    def load(self, state: State) -> None:
        self._check(state)
        slots, starts = state["slots"].astype(np.int32), state["starts"]
        total = int(starts[-1])
        cells = [state[name].view(np.int32)[:total] for name in self._synopsis_names()]
        others = np.delete(np.arange(self._width), self._key_places)
        events = np.empty((total, self._width), np.int64)
        events[:, others] = state["times"].reshape(total, len(others))
        for place, name in zip(self._key_places, self._columns, strict=True):
            events[:, place] = state[f"key/{name}"]
        self._load(
            slots, LaidOut(starts, np.zeros((total, 3), np.int64), cells, events), state["seen"]
        )

    def _load(self, slots: np.ndarray, laid: LaidOut, seen: Words) -> None:
        """Hold exactly what is laid out, with nothing between."""
        total = len(laid.events)
        self._reset()
        self.cells = [cells.copy() for cells in laid.cells]
        self._events = laid.events.copy()
        self._following = np.arange(1, total + 1, dtype=np.int32)
        self._make_room(0)
        begin, end = laid.starts[:-1], laid.starts[1:]
        self._following[end - 1] = -1
        own = self._slots
        own[slots, kernel.OLDEST], own[slots, kernel.NEWEST] = begin, end - 1
        own[slots, kernel.HELD] = end - begin
        own[: len(seen), kernel.SEEN] = seen
        self._state[kernel.USED] = self._state[kernel.LIVE] = total
        owner = np.repeat(slots, end - begin)
        self._mark_first(owner, self._events[:, self._rule.closed] == kernel.NEVER, kernel.OPEN)
        if self.key.kind == "rows":
            inside = self._events[:, LEFT] == kernel.NEVER
            self._mark_first(owner, inside, kernel.INSIDE)
        waiting = np.flatnonzero(own[:, kernel.OPEN] >= 0)
        own[waiting, kernel.COUNT] = own[waiting, kernel.NEWEST] - own[waiting, kernel.OPEN] + 1
        self._state[kernel.WAITING] = len(waiting)
        if len(waiting):
            self._state[kernel.SOONEST] = -(2**62)  # it is looked up when something comes

    def _mark_first(self, owner: np.ndarray, which: np.ndarray, column: int) -> None:
        """The first of these events of each slot."""
        places = np.flatnonzero(which)[::-1]
        self._slots[owner[places], column] = places

    def texts(self, columns: Sequence[int]) -> Rows:
        """Columns to verify by, of all events that are held; `set_texts` writes them back."""
        places = self.laid_places()
        return self._events[places][:, [KEYS + column for column in columns]]

    def set_texts(self, columns: Sequence[int], words: Rows) -> None:
        places = self.laid_places()
        for number, column in enumerate(columns):
            self._events[places, KEYS + column] = words[:, number]

    def laid_places(self) -> np.ndarray:
        """Where all events lie, one key after the other."""
        slots = np.flatnonzero(self.needed).astype(np.int32)
        total = self.count
        starts, places = np.zeros(len(slots) + 1, np.int64), np.empty(total, np.int32)
        kernel.lay_out(
            self._slab, self._rule, slots, starts, places, np.empty((total, 3), np.int64)
        )
        return places
