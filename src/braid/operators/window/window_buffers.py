"""What windows keep: each row once, until the longest window over it is over.

`operators/window/kernels/windows.py` (by time) and `operators/window/kernels/row_windows.py` (by number of rows) say how.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol

import numpy as np

from braid.errors import damaged
from braid.jit import memory
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.columns import Rows
from braid.operators.core.fanout import Fanout
from braid.operators.core.kernels.instances import FREE
from braid.operators.core.nodes import Nodes, grown
from braid.operators.core.values import Words
from braid.operators.window.kernels import row_windows
from braid.operators.window.kernels import windows as kernel
from braid.plan.layout import END, START, Layout

_LOW = np.int64(0xFFFFFFFF)


class Leaving(NamedTuple):
    """What leaves windows: visits (see `operators/window/kernels/windows.py`), their order, their output nodes."""

    order: Words
    visits: Rows
    nodes: Words


def nothing_leaves() -> Leaving:
    none = np.empty(0, np.int64)
    return Leaving(none, np.empty((0, kernel.VISIT), np.int64), none)


class Members:
    """The output nodes: the input node and the size of each."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.fanout = Fanout()
        self.input_of: Words = np.zeros(8, np.int64)
        self.size_of: Words = np.zeros(8, np.int64)

    def add(self, wanted: Words, inputs: Words, sizes: Words, least: int) -> tuple[Words, Words]:
        """The node of each member; and those that are new. Below the least size a window is
        empty."""
        numbers, rows = self.nodes.add(wanted)
        new = numbers[rows]
        if len(new):
            size = int(new.max()) + 1
            self.input_of, self.size_of = grown(self.input_of, size), grown(self.size_of, size)
            self.input_of[new], self.size_of[new] = inputs[rows], sizes[rows]
            new = new[sizes[rows] >= least]
            self.fanout.add(self.input_of[new], new)
        return numbers, new

    def release(self, numbers: Words, least: int) -> Words:
        gone = self.nodes.release(numbers)
        self.fanout.remove(gone[self.size_of[gone] >= least])
        return gone

    def laid(self, least: int, inputs: Words | None = None) -> tuple[Words, Words, Words]:
        """Input nodes (some, or all), where the output nodes of each begin, and these, the
        smallest first."""
        high = self.nodes.high
        outs = np.flatnonzero((self.nodes.uses[:high] > 0) & (self.size_of[:high] >= least))
        if inputs is not None:
            outs = outs[np.isin(self.input_of[outs], inputs)]
        outs = outs[np.lexsort((self.size_of[outs], self.input_of[outs]))]
        inputs, first = np.unique(self.input_of[outs], return_index=True)
        return inputs, np.append(first, len(outs)), outs

    @property
    def nbytes(self) -> int:
        own = self.input_of.nbytes + self.size_of.nbytes
        return own + self.nodes.nbytes + self.fanout.nbytes


class Slots:
    """Rows, each with the number of those who need it."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.load(np.empty((0, width), np.int64))

    def load(self, rows: Rows) -> None:
        self.rows = np.ascontiguousarray(rows)
        self.refs: Words = np.zeros(len(rows), np.int64)
        self.numbers: Words = np.zeros(kernel.SLOT_NUMBERS, np.int64)
        self.numbers[[kernel.FREE_HEAD, kernel.FREE_TAIL]] = -1
        self.numbers[[kernel.HIGH, kernel.LIVE]] = len(rows)
        used = rows[rows[:, END] != FREE, START]
        self.numbers[kernel.SEQUENCE] = int(used.max(initial=-1)) + 1

    def reserve(self, count: int) -> None:
        needed = max(int(self.numbers[kernel.HIGH]), self.live + count)
        if needed > len(self.rows):
            size = max(needed, len(self.rows) + len(self.rows) // 2)
            high = int(self.numbers[kernel.HIGH])
            rows = np.empty((size, self._width), np.int64)
            rows[:high] = self.rows[:high]
            refs = np.empty(size, np.int64)
            refs[:high] = self.refs[:high]
            self.rows, self.refs = rows, refs

    @property
    def live(self) -> int:
        return int(self.numbers[kernel.LIVE])

    @property
    def sparse(self) -> bool:
        """Much room for few rows: worth to start over."""
        return len(self.rows) > 4096 and 8 * self.live < len(self.rows)

    def places(self) -> Words:
        return np.flatnonzero(self.refs[: int(self.numbers[kernel.HIGH])] > 0)

    def saved(self) -> Rows:
        """All slots as they lie, so that what did not change is where it was."""
        high = int(self.numbers[kernel.HIGH])
        rows = self.rows[:high].copy()
        rows[self.refs[:high] <= 0] = FREE
        return rows

    def packed(self) -> Words:
        """Move the rows together; the new slot of each old one."""
        places = self.places()
        mapping = np.zeros(int(self.numbers[kernel.HIGH]), np.int64)
        mapping[places] = np.arange(len(places))
        self.load(self.rows[places])
        return mapping

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.refs.nbytes


class Buffer(Protocol):
    """What is kept for windows of one kind."""

    slots: Slots

    def came(self, inputs: Words | None) -> None:
        """These input nodes (None: all) have new output nodes, which see what comes from now on."""
        ...

    def went(self) -> None:
        """Some output nodes have nobody any more."""
        ...

    def process(self, rows: Rows, index: Words, members: Words, bound: int) -> Leaving: ...

    def written(self) -> None:
        """What left has been put out."""
        ...

    def recoded(self) -> None: ...

    def snapshot(self) -> State: ...

    def restore(self, state: State) -> None: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def index_bytes(self) -> int: ...

    def describe(self) -> dict[str, Any]: ...


class _Queues:
    """Profiles and bindings of windows by time (see `operators/window/kernels/windows.py`)."""

    def __init__(self) -> None:
        self.registry = Nodes()
        self.profiles: Rows = np.zeros((8, kernel.PROFILE_WORDS), np.int64)
        self.sizes: Words = np.empty(0, np.int64)
        self.cursors: Words = np.empty(0, np.int64)
        self.outs_at: Words = np.empty(0, np.int64)
        self.outs: Words = np.empty(0, np.int64)
        self.profile_of: Words = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return self.registry.high

    def bind(self, starts: Words, outs: Words, sizes: Words) -> Words:
        """New bindings, each with the output nodes from its start to the next."""
        words = [kernel.list_words(starts, sizes, seed) for seed in (1, 2)]
        numbers, fresh = self.registry.add(np.stack(words, axis=1))
        self._new_profiles(numbers[fresh], starts[:-1][fresh], np.diff(starts)[fresh], sizes)
        first = len(self.profile_of)
        self.profile_of = np.concatenate([self.profile_of, numbers])
        self.outs_at = np.concatenate([self.outs_at, starts[:-1] + len(self.outs)])
        self.outs = np.concatenate([self.outs, outs])
        return first + np.arange(len(numbers), dtype=np.int64)

    def _new_profiles(self, new: Words, starts: Words, counts: Words, sizes: Words) -> None:
        if not len(new):
            return
        self.profiles = grown(self.profiles, int(new.max()) + 1)
        table = self.profiles
        table[new] = 0
        table[new, kernel.P_OPEN] = -1
        table[new, kernel.P_NEXT] = kernel.NEVER
        table[new, kernel.P_COUNT] = counts
        ends = np.cumsum(counts)
        table[new, kernel.P_FIRST] = len(self.sizes) + ends - counts
        places = np.arange(int(ends[-1])) + np.repeat(starts - (ends - counts), counts)
        self.sizes = np.concatenate([self.sizes, sizes[places]])
        self.cursors = np.concatenate([self.cursors, np.zeros(len(places), np.int64)])

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        for base in self.profiles[:, kernel.P_AT].tolist():
            memory.free(base)

    @property
    def room(self) -> int:
        return 8 * int(self.profiles[: self.count, kernel.P_ROOM].sum())

    @property
    def nbytes(self) -> int:
        arrays = (
            self.profiles,
            self.sizes,
            self.cursors,
            self.outs_at,
            self.outs,
            self.profile_of,
        )
        return self.registry.nbytes + sum(array.nbytes for array in arrays)


class Ranges:
    """Windows by time."""

    def __init__(self, members: Members, width: int) -> None:
        self._members = members
        self.slots = Slots(width)
        self._queues = _Queues()
        self._current: Words = np.full(1, -1, np.int64)
        self._bound = -int(kernel.NEVER)

    def came(self, inputs: Words | None) -> None:
        """They get a new binding; what came earlier keeps its own."""
        inputs, starts, outs = self._members.laid(0, inputs)
        self._current = grown(self._current, int(inputs.max(initial=0)) + 1, -1)
        if len(inputs):
            self._current[inputs] = self._bind(starts, outs)

    def _bind(self, starts: Words, outs: Words) -> Words:
        return self._queues.bind(starts, outs, self._members.size_of[outs])

    def went(self) -> None:
        state = self._exported()
        outs = state["outs"]
        uses = self._members.nodes.uses
        state["outs"] = np.where(uses[outs] > 0, outs, -1) if len(outs) else outs
        self._take(state)

    def process(self, rows: Rows, index: Words, members: Words, bound: int) -> Leaving:
        queues, slots = self._queues, self.slots
        if len(index):
            slots.reserve(len(rows))
            kernel.arrive(
                rows,
                index,
                members,
                self._current,
                queues.profile_of,
                queues.profiles,
                queues.sizes,
                queues.cursors,
                slots.rows,
                slots.refs,
                slots.numbers,
            )
        self._bound = max(bound, self._bound)
        return self._leaving(bound, silent=False)

    def _leaving(self, bound: int, silent: bool) -> Leaving:
        queues = self._queues
        visits_at, count, nodes_at, named, runs_at, runs = kernel.leave(
            min(bound, int(kernel.LAST) + 1),
            queues.count,
            queues.profiles,
            queues.sizes,
            queues.cursors,
            queues.outs_at,
            queues.outs,
            self.slots.rows,
            silent,
        )
        visits = memory.taken(visits_at, kernel.VISIT * count).reshape(-1, kernel.VISIT)
        nodes, starts = memory.taken(nodes_at, named), memory.taken(runs_at, runs)
        return Leaving(_merged(visits, starts), visits, nodes)

    def written(self) -> None:
        queues, slots = self._queues, self.slots
        kernel.let_go(queues.count, queues.profiles, queues.cursors, slots.refs, slots.numbers)
        if slots.sparse:
            state = self._exported()
            mapping = slots.packed()
            state["pairs"] = (mapping[state["pairs"] >> 32] << 32) | (state["pairs"] & _LOW)
            self._take({**state, "rows": slots.rows})

    def recoded(self) -> None:
        """Nothing is looked up by value."""

    def _exported(self) -> State:
        """Pairs of a slot and a binding; the output nodes of each binding that is in them."""
        queues = self._queues
        pairs = memory.taken(*kernel.queued(queues.count, queues.profiles))
        used, places = np.unique(pairs & _LOW, return_inverse=True)
        counts = queues.profiles[queues.profile_of[used], kernel.P_COUNT]
        ends = np.cumsum(counts)
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        at = np.arange(int(starts[-1])) + np.repeat(queues.outs_at[used] - starts[:-1], counts)
        return {
            "rows": self.slots.rows[: int(self.slots.numbers[kernel.HIGH])],
            "pairs": (pairs & ~_LOW) | places,
            "starts": starts,
            "outs": queues.outs[at],
        }

    def _take(self, state: State) -> None:
        """Start over with rows and pairs; output node -1 is nobody's."""
        rows, pairs, starts, outs = (state[n] for n in ("rows", "pairs", "starts", "outs"))
        self._queues = queues = _Queues()
        self.slots.load(rows)
        binding = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        binding, outs = binding[outs >= 0], outs[outs >= 0]
        order = np.lexsort((self._members.size_of[outs], binding))
        left, first = np.unique(binding, return_index=True)
        numbers = np.full(len(starts) - 1, -1, np.int64)
        if len(left):
            numbers[left] = self._bind(np.append(first, len(outs)), outs[order])
        pairs = pairs[np.argsort(self.slots.rows[pairs >> 32, START], kind="stable")]
        new = numbers[pairs & _LOW]
        pairs = ((pairs & ~_LOW) | new)[new >= 0]
        kernel.enqueue_all(
            pairs,
            queues.profile_of,
            queues.profiles,
            queues.cursors,
            self.slots.rows,
            self.slots.refs,
        )
        kernel.free_unused(self.slots.refs, self.slots.numbers)
        self._leaving(self._bound, silent=True)
        kernel.let_go(
            queues.count, queues.profiles, queues.cursors, self.slots.refs, self.slots.numbers
        )
        self._current[:] = -1
        self.came(None)

    def snapshot(self) -> State:
        state = self._exported()
        return {
            "rows": self.slots.saved(),
            "pairs": state["pairs"],
            "starts": state["starts"],
            "outs": self._members.nodes.signatures[state["outs"]],
            "bound": np.array([self._bound], np.int64),
        }

    def restore(self, state: State) -> None:
        self._bound = int(state["bound"][0])
        outs = self._members.nodes.find(checks.table(state, "outs", 2))
        rows = _checked_rows(state, self.slots.rows.shape[1])
        pairs, starts = state["pairs"], state["starts"]
        checks.offsets(starts, len(outs), "output nodes of bindings")
        checks.within(pairs & _LOW, 0, len(starts) - 1, "bindings of rows")
        _check_places(pairs >> 32, rows)
        self._take({**state, "rows": rows, "outs": outs})

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self._queues.room

    @property
    def index_bytes(self) -> int:
        return self._current.nbytes + self._queues.nbytes

    def describe(self) -> dict[str, Any]:
        return {"profiles": self._queues.count}


class LastRows:
    """Windows of rows."""

    def __init__(self, members: Members, layout: Layout, keys: Rows) -> None:
        self._members = members
        self._base, self._keys = layout.base, keys
        self.slots = Slots(layout.width)
        self._numbers: Words = np.zeros(row_windows.RECORD_NUMBERS, np.int64)
        self._reset()
        self._lay_out()
        self._gone = (0, 0)

    def _reset(self) -> None:
        for at in (row_windows.TABLE_AT, row_windows.POOL_AT, row_windows.CELLS_AT):
            memory.free(self._numbers[at])
        self._numbers[:] = 0
        self._numbers[row_windows.CELLS_FREE] = -1

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._reset()

    def _lay_out(self) -> None:
        """The output nodes of each input node side by side."""
        inputs, starts, outs = self._members.laid(1)
        high = int(inputs.max(initial=-1)) + 1
        self._starts: Words = np.zeros(high, np.int64)
        self._counts: Words = np.zeros(high, np.int64)
        self._starts[inputs], self._counts[inputs] = starts[:-1], np.diff(starts)
        self._outs, self._sizes = outs, self._members.size_of[outs]

    def came(self, inputs: Words | None) -> None:
        self.went()

    def went(self) -> None:
        if not self._numbers[row_windows.RECORDS]:
            self._lay_out()
            return
        state = self._exported()
        outs = state["outs"]
        state["outs"] = np.where(self._members.nodes.uses[outs] > 0, outs, -1)
        self._take(state)

    def process(self, rows: Rows, index: Words, members: Words, bound: int) -> Leaving:
        if not len(index):
            return nothing_leaves()
        slots = self.slots
        slots.reserve(len(rows))
        visits_at, count, gone_at, gone = row_windows.push(
            rows,
            index,
            members,
            self._base,
            self._keys,
            self._starts,
            self._counts,
            self._outs,
            self._sizes,
            self._numbers,
            slots.rows,
            slots.refs,
            slots.numbers,
        )
        self._gone = (gone_at, gone)
        found = memory.taken(visits_at, 4 * count).reshape(-1, 4)
        visits = np.empty((count, kernel.VISIT), np.int64)
        visits[:, :3] = found[:, :3]
        visits[:, 3], visits[:, 4] = np.arange(count), 1
        order = np.arange(count, dtype=np.int64)
        if len(self._counts) > 1:  # a row may leave the windows of several input nodes at once
            order = np.argsort(found[:, 1], kind="stable")
        return Leaving(order, visits, np.ascontiguousarray(found[:, 3]))

    def written(self) -> None:
        slots = self.slots
        kernel.free_slots(*self._gone, slots.refs, slots.numbers)
        self._gone = (0, 0)
        if slots.sparse:
            state = self._exported()
            mapping = slots.packed()
            self._take({**state, "rows": slots.rows, "cells": mapping[state["cells"]]})

    def recoded(self) -> None:
        row_windows.rehash(self._numbers, self._counts, self.slots.rows, self._base, self._keys)

    def _exported(self) -> State:
        """The lists of all records, and the output nodes of each input node."""
        count = int(self._numbers[row_windows.RECORDS])
        records = np.empty((count, 2), np.int64)
        cells = np.empty(row_windows.listed(self._numbers, self._counts), np.int64)
        held = row_windows.unrolled(self._numbers, self._counts, records, cells)
        return {
            "rows": self.slots.rows[: int(self.slots.numbers[kernel.HIGH])],
            "records": records,
            "cells": cells,
            "held": held,
            "starts": self._starts,
            "counts": self._counts,
            "outs": self._outs,
        }

    def _take(self, state: State) -> None:
        """Start over with lists of rows; output node -1 is nobody's."""
        self.slots.load(state["rows"])
        self._reset()
        self._lay_out()
        outs = state["outs"]
        inputs = self._members.input_of[outs]
        place_of = np.full(self._members.nodes.high + 1, -1, np.int64)
        place_of[self._outs] = np.arange(len(self._outs)) - np.repeat(self._starts, self._counts)
        places = np.where(outs >= 0, place_of[outs], -1)
        row_windows.roll_up(
            state["records"],
            state["cells"],
            state["held"],
            state["starts"],
            state["counts"],
            places,
            inputs,
            self._base,
            self._keys,
            self._counts,
            self._numbers,
            self.slots.rows,
            self.slots.refs,
        )
        kernel.free_unused(self.slots.refs, self.slots.numbers)

    def snapshot(self) -> State:
        state = self._exported()
        state["rows"] = self.slots.saved()
        state["outs"] = self._members.nodes.signatures[state["outs"]]
        return state

    def restore(self, state: State) -> None:
        outs = self._members.nodes.find(checks.table(state, "outs", 2))
        rows = _checked_rows(state, self.slots.rows.shape[1])
        records, starts, counts = (
            checks.table(state, "records", 2),
            state["starts"],
            state["counts"],
        )
        checks.sized(counts, len(starts), "counts of output nodes")
        checks.ranges_within(starts, counts, len(outs), "output nodes of input nodes")
        checks.within(records[:, 0], 0, len(starts), "input nodes of partitions")
        checks.within(records[:, 1], 1, len(rows) + 1, "sizes of partitions")
        checks.sized(state["cells"], int(records[:, 1].sum()), "rows of partitions")
        _check_places(state["cells"], rows)
        of_each = counts[records[:, 0]]
        checks.sized(state["held"], int(of_each.sum()), "sizes of windows")
        checks.within(state["held"], 0, len(rows) + 1, "sizes of windows")
        if (state["held"] > np.repeat(records[:, 1], of_each)).any():
            raise damaged("a window has more rows than its partition")
        self._take({**state, "rows": rows, "records": records, "outs": outs})

    @property
    def nbytes(self) -> int:
        numbers = self._numbers
        words = (
            numbers[row_windows.TABLE_SIZE]
            + numbers[row_windows.POOL_ROOM]
            + 2 * numbers[row_windows.CELLS_ROOM]
        )
        return self.slots.nbytes + 8 * int(words)

    @property
    def index_bytes(self) -> int:
        return sum(a.nbytes for a in (self._starts, self._counts, self._outs, self._sizes))

    def describe(self) -> dict[str, Any]:
        return {"partitions": int(self._numbers[row_windows.RECORDS])}


def _checked_rows(state: State, width: int) -> Rows:
    """The slots that were saved; those that are used have numbers of their own."""
    rows = checks.table(state, "rows", width).copy()
    used = rows[rows[:, END] != FREE, START]
    checks.within(used, 0, checks.NUMBERS, "numbers of rows")
    if (np.diff(np.sort(used)) == 0).any():
        raise damaged("two rows have one number")
    return rows


def _check_places(places: Words, rows: Rows) -> None:
    """Slots that there are and that have a row."""
    checks.within(places, 0, len(rows), "slots of rows")
    if (rows[places, END] == FREE).any():
        raise damaged("a slot without a row is used")


def _merged(visits: Rows, starts: Words) -> Words:
    """The order of runs that are in order themselves."""
    if len(starts) < 2:
        return np.arange(len(visits), dtype=np.int64)
    source = np.empty((len(visits), 3), np.int64)
    source[:, :2] = visits[:, :2]
    source[:, 2] = np.arange(len(visits))
    target = np.empty_like(source)
    while len(starts) > 1:
        starts = kernel.merge_runs(source, target, starts)
        source, target = target, source
    return np.ascontiguousarray(source[:, 2])
