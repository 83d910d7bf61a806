"""Windows of one stream, of whatever columns, and groups over them: an event is held once for all.

The law is that of a window (`logic.py`), perhaps with groups over it (`operators/group/logic.py`), for each
member. A *node* is a port (a set of columns, or a grouping) with a node of the windows. Of each
event one buffer holds the columns that some member asks for; those are known by name, so that
state is found again by a plan whose members ask for others. What comes and goes is gone through
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.schema import Schema
from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch, Index, Later
from braid.operators.core.columns import Rows, moved, nulls_of, set_nulls
from braid.operators.core.constants import Constants
from braid.operators.core.fanout import Fanout
from braid.operators.core.membership import Origin, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Words
from braid.operators.group.kernels.groups import purge
from braid.operators.group.layout import GroupLayout
from braid.operators.group.spec import GroupSpec
from braid.operators.group.state import GroupState
from braid.operators.window.kernels import ports as kernel
from braid.operators.window.logic import WindowLogic
from braid.operators.window.spec import (
    BufferSpec,
    ColumnsRecipe,
    GroupingRecipe,
    WindowRecipe,
    WindowSpec,
)
from braid.plan.deltas import with_weight
from braid.plan.layout import Layout
from braid.plan.specs import Shape


class _Groups:
    """The groups of one grouping."""

    def __init__(self, group: GroupSpec) -> None:
        self.layout = GroupLayout(group)
        self.state = GroupState(self.layout)


class _Columns:
    """Rows with some of the columns that are held."""

    def __init__(self, columns: Schema) -> None:
        self._layout = with_weight(columns).layout

    def written(self, rows: Rows, held: Layout, index: Index, nodes: Index) -> Batch:
        """The rows that pairs name, which are in order of rows."""
        if held.names == self._layout.names:
            return Batch(rows, index, nodes).compact()
        columns = [held.column(name) for name in self._layout.names]
        is_first = np.ones(len(index), np.bool_)
        np.not_equal(index[1:], index[:-1], out=is_first[1:])
        own = moved(rows, held, self._layout, columns, index[is_first])
        return Batch(own, np.cumsum(is_first, dtype=np.int32) - np.int32(1), nodes)


class BufferLogic:
    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: BufferSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self.nodes = Nodes()
        #: Output nodes a sum of which did not fit its type, and when.
        self.stopped: dict[int, int] = {}
        held = spec.order or ()
        self._names = tuple(n for n in spec.input.schema.names if n in held)
        self._windows = WindowLogic(self._window_spec(), context)
        self._ports: dict[str, int] = {}
        self._groups: dict[int, _Groups] = {}
        self._columns: dict[int, _Columns] = {}
        self._fanout = Fanout()
        self._window_of: Words = np.zeros(8, np.int64)
        self._port_of: Words = np.zeros(8, np.int64)
        #: Each node under its own number, or -1 if it has stopped; and under its own number.
        self._living: Words = np.full(8, -1, np.int64)
        self._numbered: Words = np.arange(8, dtype=np.int64)

    # ---- what is held of an event ----

    def _window_spec(self) -> WindowSpec:
        spec, types = self._spec, self._spec.input.schema
        held = Shape(Schema.of((name, types.type_of(name)) for name in self._names))
        return WindowSpec(held, spec.kind, spec.keys, spec.order, spec.membered, spec.birth)

    def _hold(self, names: Sequence[str]) -> None:
        """Have these columns from now on: those who ask for them have seen no event yet."""
        more = tuple(dict.fromkeys(n for n in names if n not in self._names))
        if more:
            self._names = (*self._names, *more)
            self._windows.widen(self._window_spec())

    def _narrowed(self, batch: Batch) -> Batch:
        """The events with the columns that are held."""
        source, target = self._spec.input.layout, Layout(self._names)
        if source.names == target.names:
            return batch
        batch = batch.compact()
        columns = [source.column(name) for name in self._names]
        rows = moved(batch.rows, source, target, columns)
        return Batch(rows, batch.index, batch.members, batch.sets)

    # ---- members ----

    def admit(
        self,
        recipe: GroupingRecipe | ColumnsRecipe,
        constants: Constants,
        origins: Sequence[Origin | None],
    ) -> Origin:
        """A node for each node of the windows that this port is asked of."""
        self._hold(recipe.named)
        windows = self._windows.admit(WindowRecipe(recipe.size), constants, origins)
        port = self._port(recipe)
        columns = list(windows.signatures.T.copy())
        wanted = signatures(("port", recipe.port), constants.count, columns)
        numbers, rows = self.nodes.add(wanted)
        if len(rows):
            new = numbers[rows]
            size = int(new.max()) + 1
            self._window_of = grown(self._window_of, size)
            self._port_of = grown(self._port_of, size)
            self._living = grown(self._living, size, -1)
            self._numbered = np.arange(len(self._living), dtype=np.int64)
            self._window_of[new], self._port_of[new] = windows.numbers[rows], port
            self._living[new] = new
            self._fanout.add(windows.numbers[rows], new)
        return origin_of(self.nodes, numbers)

    def _port(self, recipe: GroupingRecipe | ColumnsRecipe) -> int:
        if recipe.port not in self._ports:
            number = self._ports[recipe.port] = len(self._ports)
            if isinstance(recipe, GroupingRecipe):
                shape = self._windows.output
                self._groups[number] = _Groups(replace(recipe.group, input=shape))
            else:
                self._columns[number] = _Columns(recipe.columns)
        return self._ports[recipe.port]

    def dismiss(self, numbers: Words) -> Words:
        """Members leave; the nodes that nobody uses any more, whose groups are forgotten."""
        gone = self.nodes.release(numbers)
        self._fanout.remove(gone[self._living[gone] >= 0])
        self._forget(gone)
        self._living[gone] = -1
        for node in gone.tolist():
            self.stopped.pop(node, None)
        self._windows.nodes.retire(self._windows.dismiss(self._window_of[numbers]))
        return gone

    def _forget(self, nodes: Words) -> None:
        if not len(nodes):
            return
        gone = np.zeros(self.nodes.high, np.bool_)
        gone[nodes] = True
        for port in np.unique(self._port_of[nodes]).tolist():
            groups = self._groups.get(port)
            if groups is not None and groups.state.groups:
                purge(self._framed(port), groups.state.numbers, gone)

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> dict[str, Later]:
        deltas = self._windows.on_batch([self._narrowed(inputs[0])], bound)
        if not len(deltas) or not self.nodes.count:
            return {}
        assert deltas.index is not None
        assert deltas.members is not None
        starts, index, nodes = self._laid(deltas.index, deltas.members)
        names = list(self._ports)
        return {
            names[port]: partial(
                self._written, port, deltas.rows, index[first:last], nodes[first:last]
            )
            for port in np.flatnonzero(np.diff(starts)).tolist()
            for first, last in [(starts[port], starts[port + 1])]
        }

    def _written(self, port: int, rows: Rows, index: Index, nodes: Index) -> Batch:
        """What a port makes of deltas, when somebody asks for it: then it is fresh in the cache."""
        if port in self._columns:
            return self._columns[port].written(rows, self._windows.output.layout, index, nodes)
        self._framed(port)
        found, members, stopped = self._groups[port].state.follow(rows, index, nodes)
        self._stop(stopped)
        return Batch(found, np.arange(len(found), dtype=np.int32), members.astype(np.int32))

    def _laid(self, index: Index, members: Index) -> tuple[Words, Index, Index]:
        """Where the pairs of each port begin, and these."""
        heads, following = self._fanout.lists
        counts = np.zeros(len(self._ports), np.int64)
        kernel.count_pairs(heads, following, self._port_of, members, counts)
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        rows, nodes = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
        places = starts[:-1].copy()
        kernel.lay_pairs(heads, following, self._port_of, index, members, places, rows, nodes)
        return starts, rows, nodes

    def _framed(self, port: int) -> Words:
        """Where everything is now: tables move when they grow."""
        strings = address(self._context.values.strings.description)
        state = self._groups[port].state
        return state.framed(self._living, self._numbered, strings, self._windows.output.layout)

    def _stop(self, stopped: Rows) -> None:
        """Sums of these nodes do not fit, since these times."""
        if len(stopped):
            self.stopped |= dict(stopped.tolist())
            self._fanout.remove(stopped[:, 0])
            self._forget(stopped[:, 0])

    # ---- state ----

    @property
    def instances(self) -> int:
        return self._windows.instances + sum(table.state.groups for table in self._groups.values())

    @property
    def state_bytes(self) -> int:
        return self._windows.state_bytes + sum(
            table.state.nbytes for table in self._groups.values()
        )

    @property
    def index_bytes(self) -> int:
        arrays = (self._window_of, self._port_of, self._living, self._numbered)
        own = sum(array.nbytes for array in arrays) + self._fanout.nbytes + self.nodes.nbytes
        tables = sum(table.layout.nbytes for table in self._groups.values())
        return own + tables + self._windows.index_bytes

    def snapshot(self) -> State:
        """What the windows and each grouping save, under their own names."""
        stopped = list(self.stopped.items())
        nodes = np.array([node for node, _ in stopped], np.int64)
        times = np.array([instant for _, instant in stopped], np.int64)
        saved: State = {
            "columns": _as_words(self._names),
            "nodes": self.nodes.signatures[: self.nodes.high].copy(),
            "stopped": np.column_stack([self.nodes.signatures[nodes], times]),
        }
        saved |= {f"window.{name}": array for name, array in self._windows.snapshot().items()}
        for name, groups in self._named_groups():
            state = groups.state.saved()
            saved |= {f"{name}.{part}": array for part, array in state.items()}
        return saved

    def restore(self, state: State) -> None:
        """Take up saved rows and groups; members are there already, under whatever numbers."""
        self._restore_windows(state)
        known = self.nodes.find(checks.table(state, "nodes", 2))
        stopped = state["stopped"].reshape(-1, 3)
        found = self.nodes.find(np.ascontiguousarray(stopped[:, :2]))
        self.stopped = {}
        for node, instant in zip(found.tolist(), stopped[:, 2].tolist(), strict=True):
            if node >= 0:
                self.stopped[node] = instant
                self._living[node] = -1
                self._fanout.remove(np.array([node], np.int64))
        for name, groups in self._named_groups():
            own = _part(state, name)
            if own:
                strings = self._context.values.strings.count
                groups.state.load(own, known, self._framed(self._ports[name]), strings)

    def _named_groups(self) -> Iterator[tuple[str, _Groups]]:
        for name, port in self._ports.items():
            if port in self._groups:
                yield name, self._groups[port]

    def _restore_windows(self, state: State) -> None:
        windows = _part(state, "window")
        if not windows:
            return
        names = _as_names(state["columns"])
        if names != self._names:
            windows["rows"] = _laid_out(windows["rows"], names, self._names)
        self._windows.restore(windows)

    def held(self) -> Held | None:
        """The events in windows, and the texts of groups."""
        events, texts = self._windows.held(), [t.state.texts() for t in self._groups.values()]
        known = [found for found in texts if found is not None]
        return None if events is None and not known else _together(events, known)

    def replace_held(self, rows: Rows) -> None:
        """Take everything back with codes rewritten."""
        events, used = self._windows.held(), 0
        if events is not None:
            used, first = len(events.rows), Layout((*events.layout.names, "text")).base
            columns = len(events.layout.names)
            events.rows[:, events.layout.base :] = rows[:used, first : first + columns]
            self._windows.replace_held(events.rows)
        for port, groups in self._groups.items():
            texts = groups.state.texts()
            if texts is not None:
                used = _taken_apart(rows, used, texts)
                groups.state.replace_texts(texts.rows, self._framed(port))

    def forget_codes(self) -> None:
        """Codes are in rows that are held, and nowhere else."""

    def describe(self) -> dict[str, Any]:
        states = [table.state for table in self._groups.values()]
        return {
            "nodes": self.nodes.count,
            "groupings": len(self._groups),
            "readers": len(self._columns),
            "groups": sum(state.groups for state in states),
            "values": sum(state.values for state in states),
            "negative": sum(state.negative for state in states),
            "columns": len(self._names),
            **self._windows.describe(),
        }


def _as_words(names: Sequence[str]) -> Words:
    return np.frombuffer("\0".join(names).encode(), np.uint8).astype(np.int64)


def _as_names(words: Words) -> tuple[str, ...]:
    text = bytes(words.astype(np.uint8)).decode()
    return tuple(text.split("\0")) if text else ()


def _part(state: State, owner: str) -> State:
    start = f"{owner}."
    return {k.removeprefix(start): array for k, array in state.items() if k.startswith(start)}


def _laid_out(rows: Rows, names: tuple[str, ...], wanted: tuple[str, ...]) -> Rows:
    """Rows with other columns: those that they do not have are NULL."""
    source, target = Layout(names), Layout(wanted)
    rows = rows.reshape(-1, source.width)
    columns = [source.column(n) if n in names else 0 for n in wanted]
    if not names:
        out = np.zeros((len(rows), target.width), np.int64)
        out[:, :2] = rows[:, :2]
    else:
        out = moved(rows, source, target, columns)
    for k, name in enumerate(wanted):
        if name not in names:
            out[:, target.base + k] = 0
            set_nulls(out, k, np.ones(len(out), np.bool_))
    return out


# ---- codes in rows of many forms, as rows of one ----


def _together(events: Held | None, texts: Sequence[Held]) -> Held:
    """A row for each event, then one for each place of a text in a group: its text is one column
    more."""
    names, types = ((), ()) if events is None else (events.layout.names, events.types)
    layout = Layout((*(f"{k}" for k in range(len(names))), "text"))
    first = 0 if events is None else len(events.rows)
    words = [_flat(found) for found in texts]
    rows = np.zeros((first + sum(len(own) for own, _ in words), layout.width), np.int64)
    for k in range(len(names)):
        nulls = np.ones(len(rows), np.bool_)
        if events is not None:
            rows[:first, layout.base + k] = events.rows[:, events.layout.base + k]
            own = nulls_of(events.rows, k)
            nulls[:first] = False if own is None else own
        set_nulls(rows, k, nulls)
    nulls = np.ones(len(rows), np.bool_)
    for own, unknown in words:
        rows[first : first + len(own), -1] = own
        nulls[first : first + len(own)] = unknown
        first += len(own)
    set_nulls(rows, len(names), nulls)
    return Held(rows, layout, (*types, pa.string()))


def _flat(texts: Held) -> tuple[Words, np.ndarray]:
    """The words of all columns, one after the other, and which are NULL."""
    columns = range(len(texts.layout.names))
    words = [texts.rows[:, texts.layout.base + k] for k in columns]
    nulls = [nulls_of(texts.rows, k) for k in columns]
    none = np.zeros(len(texts.rows), np.bool_)
    return np.concatenate(words), np.concatenate([none if n is None else n for n in nulls])


def _taken_apart(rows: Rows, used: int, texts: Held) -> int:
    """Put words back where `_flat` took them from; how many rows are used then."""
    count = len(texts.rows)
    for k in range(len(texts.layout.names)):
        texts.rows[:, texts.layout.base + k] = rows[used : used + count, -1]
        used += count
    return used
