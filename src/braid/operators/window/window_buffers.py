"""What windows keep: each row once, until the longest window over it is over.

`kernels/windows.py` describes windows by time, and `kernels/row_windows.py` windows by number of rows.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

from braid.errors import damaged
from braid.jit import memory, records
from braid.jit.hash_table import Link, free_table
from braid.jit.row_keys import KeyColumn
from braid.jit.rows import FREE
from braid.jit.vector import Vector
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.columns import Rows
from braid.operators.core.fanout import Fanout
from braid.operators.core.nodes import Nodes, grown
from braid.operators.core.values import Words
from braid.operators.window.kernels import row_windows
from braid.operators.window.kernels import windows as kernel
from braid.operators.window.kernels.deltas import VISIT_WORDS, Arrivals, Leaving, Visit, merge_runs
from braid.operators.window.kernels.row_windows import Input, Saved
from braid.operators.window.kernels.windows import Profile
from braid.operators.window.row_slots import Slots
from braid.plan.layout import END, START, Layout

_LOW = np.int64(0xFFFFFFFF)
_ORDER = Visit.word("order")


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


class Buffer(Protocol):
    """What is kept for windows of one kind. What leaves is written to the record that it was made
    with."""

    slots: Slots

    def came(self, inputs: Words | None) -> None:
        """These input nodes (None: all) have new output nodes, which see what comes from now on."""
        ...

    def went(self) -> None:
        """Some output nodes have nobody any more."""
        ...

    def process(self, arrivals: Arrivals, bound: int) -> Words:
        """Take events in; the order of the visits of what leaves before a time."""
        ...

    def written(self) -> None:
        """The visits have been written."""
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
    """Profiles and bindings of windows by time (see `kernels/windows.py`)."""

    def __init__(self) -> None:
        self.registry = Nodes()
        self.profiles = np.zeros(8, Profile.dtype)
        self.sizes: Words = np.empty(0, np.int64)
        self.cursors: Words = np.empty(0, np.int64)
        self.outs_at: Words = np.empty(0, np.int64)
        self.outs: Words = np.empty(0, np.int64)
        self.profile_of: Words = np.empty(0, np.int64)

    def point(self, frame: kernel.Queues) -> None:
        """Write where everything is now."""
        frame.profiles, frame.profile_count = Profile.at(self.profiles), self.count
        frame.sizes = records.Words.at(self.sizes)
        frame.cursors = records.Words.at(self.cursors)
        frame.profile_of = records.Words.at(self.profile_of)
        frame.outs_at, frame.outs = records.Words.at(self.outs_at), records.Words.at(self.outs)

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
        table["open"][new] = -1
        table["next"][new] = kernel.NEVER
        table["count"][new] = counts
        ends = np.cumsum(counts)
        table["first"][new] = len(self.sizes) + ends - counts
        places = np.arange(int(ends[-1])) + np.repeat(starts - (ends - counts), counts)
        self.sizes = np.concatenate([self.sizes, sizes[places]])
        self.cursors = np.concatenate([self.cursors, np.zeros(len(places), np.int64)])

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        for base in self.profiles["queue"].tolist():
            memory.free(base)

    @property
    def room(self) -> int:
        return 8 * int(self.profiles["room"][: self.count].sum())

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

    def __init__(self, members: Members, width: int, leaving: Leaving) -> None:
        self._members = members
        self.slots = Slots(width)
        self._queues = _Queues()
        self._current: Words = np.full(1, -1, np.int64)
        self._bound = -int(kernel.NEVER)
        self._memory = np.zeros(1, kernel.Queues.dtype)
        self._frame = kernel.Queues.at(self._memory)
        self._frame.leaving = leaving

    def came(self, inputs: Words | None) -> None:
        """They get a new binding; what came earlier keeps its own."""
        inputs, starts, outs = self._members.laid(0, inputs)
        self._current = grown(self._current, int(inputs.max(initial=0)) + 1, -1)
        if len(inputs):
            self._current[inputs] = self._bind(starts, outs)
        self._point()

    def _bind(self, starts: Words, outs: Words) -> Words:
        return self._queues.bind(starts, outs, self._members.size_of[outs])

    def _point(self) -> None:
        self._queues.point(self._frame)
        frame = self._frame
        frame.current, frame.current_length = records.Words.at(self._current), len(self._current)
        frame.slots = self.slots.record

    def went(self) -> None:
        state = self._exported()
        outs = state["outs"]
        uses = self._members.nodes.uses
        state["outs"] = np.where(uses[outs] > 0, outs, -1) if len(outs) else outs
        self._take(state)

    def process(self, arrivals: Arrivals, bound: int) -> Words:
        if arrivals.members_length:
            kernel.arrive(self._frame, arrivals)
        self._bound = max(bound, self._bound)
        self._leave(bound, silent=False)
        leaving = self._frame.leaving
        visits = memory.view(leaving.visits.items.address, leaving.visits.count)
        starts = memory.view(leaving.runs.items.address, leaving.runs.count)
        return _merged(visits.reshape(-1, VISIT_WORDS), starts)

    def _leave(self, bound: int, silent: bool) -> None:
        kernel.leave(self._frame, min(bound, int(kernel.LAST) + 1), silent)

    def written(self) -> None:
        kernel.drop_passed(self._frame)
        if self.slots.is_sparse:
            state = self._exported()
            mapping = self.slots.packed()
            state["pairs"] = (mapping[state["pairs"] >> 32] << 32) | (state["pairs"] & _LOW)
            self._take({**state, "rows": self.slots.rows})

    def recoded(self) -> None:
        """Nothing is looked up by value."""

    def _exported(self) -> State:
        """Pairs of a slot and a binding; the output nodes of each binding that is in them."""
        queues = self._queues
        self._point()
        found = np.zeros(1, Vector.dtype)
        kernel.list_bindings(self._frame, Vector.at(found))
        pairs = memory.taken(int(found["items"][0]), int(found["count"][0]))
        used, places = np.unique(pairs & _LOW, return_inverse=True)
        counts = queues.profiles["count"][queues.profile_of[used]]
        ends = np.cumsum(counts)
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        at = np.arange(int(starts[-1])) + np.repeat(queues.outs_at[used] - starts[:-1], counts)
        return {
            "rows": self.slots.used,
            "pairs": (pairs & ~_LOW) | places,
            "starts": starts,
            "outs": queues.outs[at],
        }

    def _take(self, state: State) -> None:
        """Start over with rows and pairs; output node -1 is nobody's."""
        rows, pairs, starts, outs = (state[n] for n in ("rows", "pairs", "starts", "outs"))
        self._queues = _Queues()
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
        self._point()
        kernel.enqueue_all(self._frame, pairs)
        self.slots.free_unused()
        self._leave(self._bound, silent=True)
        kernel.drop_passed(self._frame)
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
    """Windows by number of rows. `keys`: the columns that partitions are of."""

    def __init__(self, members: Members, layout: Layout, keys: Rows, leaving: Leaving) -> None:
        self._members = members
        self._keys = keys
        self.slots = Slots(layout.width)
        self._memory = np.zeros(1, row_windows.Frame.dtype)
        self._frame = frame = row_windows.Frame.at(self._memory)
        frame.slots, frame.leaving, frame.base = self.slots.record, leaving, layout.base
        frame.keys, frame.keys_length = KeyColumn.at(keys), len(keys)
        self._reset()
        self._lay_out()

    def _reset(self) -> None:
        """Have no partitions."""
        frame = self._frame
        free_table(frame.table)
        for vector in (frame.pool, frame.unused):
            memory.free(vector.items.address)
            vector.items, vector.room, vector.count = records.Words(0), 0, 0
        memory.free(frame.cells.address)
        frame.table.links, frame.cells = Link(0), row_windows.Cell(0)
        frame.partitions, frame.cell_room, frame.cell_high, frame.cell_free = 0, 0, 0, -1

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._reset()

    def _lay_out(self) -> None:
        """The output nodes of each input node side by side."""
        inputs, starts, outs = self._members.laid(1)
        self._inputs: Rows = np.zeros((int(inputs.max(initial=-1)) + 1, 2), np.int64)
        self._inputs[inputs, 0], self._inputs[inputs, 1] = starts[:-1], np.diff(starts)
        self._outs, self._sizes = outs, self._members.size_of[outs]
        frame = self._frame
        frame.inputs, frame.inputs_length = Input.at(self._inputs), len(self._inputs)
        frame.outs, frame.sizes = records.Words.at(self._outs), records.Words.at(self._sizes)

    def came(self, inputs: Words | None) -> None:
        self.went()

    def went(self) -> None:
        if not self._frame.partitions:
            self._lay_out()
            return
        state = self._exported()
        outs = state["outs"]
        state["outs"] = np.where(self._members.nodes.uses[outs] > 0, outs, -1)
        self._take(state)

    def process(self, arrivals: Arrivals, bound: int) -> Words:
        if not arrivals.members_length:
            return np.empty(0, np.int64)
        row_windows.arrive(self._frame, arrivals)
        found = self._frame.leaving.visits
        visits = memory.view(found.items.address, found.count).reshape(-1, VISIT_WORDS)
        if len(self._inputs) > 1:  # a row may leave the windows of several input nodes at once
            return np.argsort(visits[:, _ORDER], kind="stable")
        return np.arange(len(visits), dtype=np.int64)

    def written(self) -> None:
        row_windows.free_unused_rows(self._frame)
        if self.slots.is_sparse:
            state = self._exported()
            mapping = self.slots.packed()
            self._take({**state, "rows": self.slots.rows, "cells": mapping[state["cells"]]})

    def recoded(self) -> None:
        row_windows.rehash(self._frame)

    def _exported(self) -> State:
        """The lists of all partitions, and the output nodes of each input node."""
        frame = self._frame
        partitions = np.empty((frame.partitions, 2), np.int64)
        cells = np.empty(row_windows.count_cells(frame), np.int64)
        held = np.empty(row_windows.count_windows(frame), np.int64)
        given = {"partitions": partitions, "slots": cells, "held": held}
        saved = records.filled(Saved, **given)
        row_windows.save(frame, Saved.at(saved))
        return {
            "rows": self.slots.used,
            "records": partitions,
            "cells": cells,
            "held": held,
            "starts": self._inputs[:, 0].copy(),
            "counts": self._inputs[:, 1].copy(),
            "outs": self._outs,
        }

    def _take(self, state: State) -> None:
        """Start over with lists of rows; output node -1 is nobody's."""
        self.slots.load(state["rows"])
        self._reset()
        self._lay_out()
        outs = state["outs"]
        nodes = self._members.input_of[outs]
        place_of = np.full(self._members.nodes.high + 1, -1, np.int64)
        starts, counts = self._inputs.T
        place_of[self._outs] = np.arange(len(self._outs)) - np.repeat(starts, counts)
        places = np.where(outs >= 0, place_of[outs], -1)
        inputs = np.stack([state["starts"], state["counts"]], axis=1)
        given = [np.ascontiguousarray(state[name]) for name in ("records", "cells", "held")]
        names = ("partitions", "slots", "held")
        saved = records.filled(Saved, **dict(zip(names, given, strict=True)))
        row_windows.load(self._frame, Saved.at(saved), Input.at(inputs), places, nodes)
        self.slots.free_unused()

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
        frame = self._frame
        chains = frame.table.mask + 1 if frame.table.heads else 0
        return self.slots.nbytes + 8 * (chains + frame.pool.room + 2 * frame.cell_room)

    @property
    def index_bytes(self) -> int:
        return self._inputs.nbytes + self._outs.nbytes + self._sizes.nbytes

    def describe(self) -> dict[str, Any]:
        return {"partitions": self._frame.partitions}


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
        starts = merge_runs(source, target, starts)
        source, target = target, source
    return np.ascontiguousarray(source[:, 2])
