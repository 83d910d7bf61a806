"""NEXT and FOLD: sequence and iteration as one family, because NEXT is FOLD without a rebind edge.

In the words of the automata: an instance waits at a state; the *filter predicate* says which
events affect it, the *rebind predicate* whether it goes on with the event, and everything that
is emitted takes the *forward* edges. The three invariants on these edges (a forward or rebind
edge is only taken by an event that satisfies the filter predicate, a forward edge only by one
that satisfies the rebind predicate) hold by construction: the kernel asks for the rebind
predicate after the filter predicate held, and emits after both did.

The law: restricted to the instances and edges of one member, the loop does what it would do if
the member were alone. Members share an instance only if they agree on everything that decides
about its life (their group); whether an event starts one for a member, how long it is of use to
it, and which composites it wants is kept for each.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np

from braid.algebra.expressions import Expression, Source, is_true
from braid.errors import damaged
from braid.jit import codegen, memory
from braid.jit.memory import address_of
from braid.jit.records import Words as WordPointer
from braid.jit.rows import FREE
from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.columnar_input import Unread
from braid.operators.core.columns import Rows, nulls_of, set_nulls
from braid.operators.core.constants import Constants
from braid.operators.core.kernels.columnar_input import Ring
from braid.operators.core.kernels.rows import packed_pairs
from braid.operators.core.membership import Origin
from braid.operators.core.nodes import Nodes
from braid.operators.core.roles import CountsInstances
from braid.operators.core.values import Words
from braid.operators.pattern.kernels import maintenance
from braid.operators.pattern.kernels import steps as kernel
from braid.operators.pattern.kernels.counting import count_instances
from braid.operators.pattern.kernels.records import (
    LEAST_ARENA,
    LEAST_HEADS,
    Frame,
    Link,
    Output,
    Owner,
    Slots,
)
from braid.operators.pattern.pattern_tables import States
from braid.operators.pattern.set_states import SetStates
from braid.operators.pattern.spec import StepRecipe, StepSpec
from braid.plan.layout import END, MASK, Layout

#: More sets than this are not kept: instances get single nodes instead.
MANY_SETS = 1_024


class StepLogic(CountsInstances):
    saves = True

    def __init__(self, spec: StepSpec, context: Context) -> None:
        self._slots: Any = np.zeros((), Slots.dtype)
        self._spec = spec
        self._context = context
        self._layout = Layout(spec.columns.names)
        self._alternatives = max(1, len(spec.alternatives))
        names = spec.second.schema.names
        self._second = Layout((*names, "#") if spec.second_membered else names)
        self._compile()
        self._columns = self._make_columns()
        self._fixed_frame = self._make_frame()
        self.tables = States(spec, context, self._second)
        self.sets = SetStates(self.tables)
        #: Output nodes whose state gave up because of its budget, and when.
        self.stopped: dict[int, int] = {}
        self._given_up: list[tuple[int, int, int]] = []
        self._seen = 0
        self._reset(np.empty((0, self._layout.width + 1), np.int64), np.empty(0, np.int64))

    # ---- what is compiled ----

    def _compile(self) -> None:
        spec = self._spec
        places = {
            Source.FIRST: codegen.Place("i", self._layout, "f:"),
            Source.LAST: codegen.Place("i", self._layout, "l:"),
            Source.SECOND: codegen.Place("e", self._second),
        }
        self._predicate = self._rebind = codegen.always
        self._write = codegen.nothing
        self._accept: Any = None
        if not is_true(spec.residual):
            self._predicate = codegen.predicate(spec.residual, places).compiled
        if spec.rebind is not None and not is_true(spec.rebind):
            self._rebind = codegen.predicate(spec.rebind, places).compiled
        updates = self._updates()
        if updates:
            self._write = codegen.writer(updates, self._layout, places).compiled

    def _forward(self) -> Any:
        """What forward edges ask beyond tests; known once a member has asked it."""
        asked = self.tables.forward_shape
        if asked is None:
            return codegen.always
        if self._accept is None:
            places = {Source.INPUT: codegen.Place("e", self._spec.output.layout)}
            self._accept = codegen.predicate(asked, places).compiled
        return self._accept

    def _updates(self) -> list[tuple[str, Expression]]:
        """How each `l:` column of an instance gets its value in an iteration."""
        if not self._spec.iterates:
            return []
        updates = {f"l:{last.name}": last.update for last in self._spec.lasts}
        return [(n, updates[n]) for n in self._spec.columns.names if n in updates]

    def _make_columns(self) -> tuple[Words, ...]:
        spec, layout = self._spec, self._layout
        first, second = spec.first.layout, self._second
        starts = {f"l:{last.name}": last.start for last in spec.lasts}
        bound = [starts.get(n, n[2:]) for n in layout.names]
        bind = [-1 if n is None or n not in spec.first.schema else first.column(n) for n in bound]
        emit = [
            -1 - second.column(s[2:]) if s.startswith("e:") else layout.column(s) for s in spec.emit
        ]
        alternatives = [key for alternative in spec.alternatives for key in alternative]
        own = [layout.column(k.instance) if k.instance else -1 - k.constant for k in alternatives]
        compared = [(k.event, k.floating) for k in spec.keys]
        compared += [(k.event, k.floating) for k in alternatives]
        ends = np.cumsum(
            [len(spec.keys), *(len(alternative) for alternative in spec.alternatives or ((),))]
        )
        return (
            _words([layout.column(k.instance) for k in spec.keys] + own),
            _words([second.column(event) for event, _ in compared]),
            _words([int(floating) for _, floating in compared]),
            _words(bind),
            _words(emit),
            ends.astype(np.int64),
        )

    def _make_frame(self) -> Any:
        """A frame with all that the form of the step says."""
        spec, layout = self._spec, self._layout
        instance_keys, event_keys, float_keys, bind, emit, starts = self._columns
        frame = np.zeros((), Frame.dtype)
        frame["instance_keys"] = address(instance_keys)
        frame["event_keys"] = address(event_keys)
        frame["float_keys"] = address(float_keys)
        frame["key_count"] = len(spec.keys)
        frame["alternatives"], frame["starts"] = self._alternatives, address(starts)
        frame["binds_all"] = bool(np.all(bind >= 0))
        frame["one_hash"] = self._alternatives == 1 and not len(instance_keys)
        frame["bind"], frame["columns"] = address(bind), len(bind)
        frame["emit"], frame["emitted"] = address(emit), len(emit)
        frame["instance_base"] = layout.base
        frame["event_base"] = self._second.base
        frame["first_base"] = spec.first.layout.base
        frame["out_base"] = spec.output.layout.base
        frame["link_offset"] = 8 * layout.width
        frame["owner_offset"] = 8 * layout.width + Link.stride * self._alternatives
        frame["slot_size"] = frame["owner_offset"] + Owner.stride
        frame["iterates"] = spec.iterates
        frame["residual"] = not is_true(spec.residual)
        frame["channels"] = spec.channels
        frame["budget"] = self._context.instance_budget
        return frame

    def _frame(self) -> Frame:
        """The frame with the places of everything now: tables move when they grow."""
        tables, frame = self.tables, self._fixed_frame
        frame["first_heads"] = address_of(tables.heads)
        frame["set_heads"] = address_of(self.sets.heads)
        frame["aliases"] = address_of(self.sets.aliases)
        frame["alias_count"] = len(self.sets.aliases)
        frame["states"] = address_of(tables.state_table)
        frame["edges"] = address_of(tables.edges.table)
        frame["groups"] = address_of(tables.group_table)
        frame["atoms"] = address_of(tables.atoms)
        frame["sets"] = address(tables.sets)
        frame["parameters"] = address(tables.parameters)
        frame["classes"] = address_of(tables.classes)
        frame["class_count"] = tables.class_count
        frame["strings"] = address(self._context.values.strings.description)
        frame["state_count"] = tables.states.high
        return Frame.at(frame)

    # ---- members ----

    def admit(
        self, recipe: StepRecipe, constants: Constants, origins: SequenceOf[Origin | None]
    ) -> Origin:
        admitted = self.tables.admit(recipe, constants, origins)
        self._join_stopped(admitted.numbers)
        return admitted

    def _join_stopped(self, outs: Words) -> None:
        """Members of a state that has given up have given up as well."""
        if not self._given_up:
            return
        tables = self.tables
        for a, b, at in self._given_up:
            (state,) = tables.states.find(np.array([[a, b]], np.int64)).tolist()
            for out in outs[tables.state_of[outs] == state].tolist():
                self.stopped[out] = at

    def dismiss(self, numbers: Words) -> Words:
        """Members leave; the output nodes that nobody uses any more. Instances that were only
        theirs are forgotten."""
        outs, states, groups = self.tables.dismiss(numbers)
        self.sets.refresh()
        if len(states):
            maintenance.purge(self._frame(), Slots.at(self._slots))
            self.tables.retire(states, groups)
        for out in outs.tolist():
            self.stopped.pop(out, None)
        return outs

    @property
    def nodes(self) -> Nodes:
        return self.tables.outs

    @property
    def takes_sets(self) -> bool:
        return self._spec.channels

    takes_bits = False

    # ---- events ----

    def on_batch(self, inputs: SequenceOf[Batch], bound: int) -> Batch:
        first, second = inputs[0], inputs[1].spelled()
        width = self._spec.output.layout.width
        if not (len(first) or len(second)) or not self.tables.states.count:
            return Batch(np.empty((0, width), np.int64), _none(), _none())
        self.tables.know(first)
        if len(self.sets.known) > MANY_SETS:
            self._spell_sets()
        numbers = self.sets.numbers(first)
        if first.near is not None and not len(self.sets.known):
            self.tables.lay_together(first.near)
        self.sets.refresh()
        output, rows, pairs = (
            np.zeros((), Output.dtype),
            np.ascontiguousarray(first.rows),
            _pairs(first, numbers),
        )
        events, ring = self._numbered(second)
        kernel.follow(
            self._frame(),
            Slots.at(self._slots),
            Output.at(output),
            rows,
            pairs,
            events,
            Ring() if ring is None else Ring.at(ring),
            self._predicate,
            self._rebind,
            self._forward(),
            self._write,
        )
        made = memory.taken(int(output["rows"]), int(output["count"]) * width).reshape(-1, width)
        batch = self._forwarded(made, _taken(output["pairs"]))
        stopped = _taken(output["stopped"]).reshape(-1, 2)
        if len(stopped):
            batch = self._without(batch, stopped)
            self._give_up(stopped)
        self._seen += len(first) + len(second)
        self._expire(bound)
        return batch

    def _numbered(self, second: Batch) -> tuple[Rows, Any]:
        """The events of the second input; with members, one for each, which has its number. And the
        ring that they come through, if they are not rows yet."""
        if isinstance(second, Unread) and not self._spec.second_membered:
            return np.empty((0, self._second.width), np.int64), second.columns.ring()
        if not self._spec.second_membered:
            return np.ascontiguousarray(second.alone()), None
        assert second.index is not None
        assert second.members is not None
        source, target = self._spec.second.layout, self._second
        rows = second.rows[second.index]
        out = np.zeros((len(rows), target.width), np.int64)
        out[:, : source.base] = rows[:, : source.base]
        out[:, target.base : target.base + len(source.names)] = rows[:, source.base :]
        out[:, -1] = second.members
        return out, None

    def _forwarded(self, rows: Rows, pairs: Words) -> Batch:
        """Resolve what the loop left to the index of edges."""
        index, nodes = (pairs >> 32).astype(np.int32), pairs & 0xFFFFFFFF
        many = nodes >= int(kernel.MANY)
        if many.any():
            asked = np.flatnonzero(many)
            states = self.sets.meant(nodes[asked] & (int(kernel.MANY) - 1))
            at, outs = self.tables.forward.match(rows, index[asked], states)
            index = np.concatenate([index[~many], at])
            nodes = np.concatenate([nodes[~many], outs])
            order = np.argsort(index, kind="stable")
            index, nodes = index[order], nodes[order]
        sets = self.sets.outs if len(self.sets.outs) else None
        return Batch(rows, index, nodes.astype(np.int32), sets).compact()

    def _without(self, batch: Batch, stopped: Words) -> Batch:
        """States that gave up put nothing out after that, whatever sets they were in."""
        if not len(self.sets.known):
            return batch
        batch = batch.spelled()
        assert batch.index is not None
        assert batch.members is not None
        ends, states = batch.rows[batch.index, END], self.tables.state_of[batch.members]
        kept = np.ones(len(states), np.bool_)
        for state, at in stopped.tolist():
            kept &= (states != state) | (ends <= at)
        return Batch(batch.rows, batch.index[kept], batch.members[kept])

    def _spell_sets(self) -> None:
        """Write single nodes into the instances instead of sets."""
        if len(self.sets.known):
            starts, nodes = self.sets.spelled()
            given = WordPointer.at(starts), WordPointer.at(nodes)
            maintenance.forget_sets(self._frame(), Slots.at(self._slots), *given)
            self.sets.forget()

    def _expire(self, bound: int) -> None:
        """Sweep when as many events have gone by as there are instances: constant work for each."""
        if self._seen >= self.instances > 0:
            maintenance.sweep(self._frame(), Slots.at(self._slots), bound)
            self._seen = 0

    def _give_up(self, stopped: Words) -> None:
        for state, at in stopped.tolist():
            a, b = self.tables.states.signatures[state].tolist()
            self._given_up.append((a, b, at))
            for out in self.tables.stop(_words([state])).tolist():
                self.stopped[out] = at
        self.sets.refresh()
        maintenance.purge(self._frame(), Slots.at(self._slots))

    # ---- state ----

    def _reset(self, rows: Rows, arena: Words) -> None:
        """Start over with these instances: rows whose last word says whose they are."""
        self._release()
        width, count = self._layout.width, len(rows)
        stamp = self._slots["stamp"]  # groups remember the last one that they were given
        slots = self._slots = np.zeros((), Slots.dtype)
        slots["stamp"] = stamp
        slots["high"] = count
        slots["capacity"] = capacity = max(16, count)
        slots["rows"] = memory.resized(0, capacity * self._slot_words)
        slots["arena_size"] = max(64, len(arena))
        slots["arena_used"] = len(arena)
        slots["arena"] = memory.resized(0, int(slots["arena_size"]))
        slots["arena_limit"] = 2 * len(arena) + LEAST_ARENA
        slots["allowed"] = self._context.instance_budget - count
        memory.view(int(slots["arena"]), len(arena))[:] = arena
        held = self._memory()
        held[:count, :width] = rows[:, :width]
        held[:count, -1] = rows[:, width]
        if count:
            groups = rows[:, width][rows[:, END] != FREE] >> 32
            assert not len(groups) or int(groups.max()) < len(self.tables.group_table)
            maintenance.rebuild(self._frame(), Slots.at(slots))
            return
        # Nothing to hang into chains: compiling what does it would be most of a cold start.
        slots["free_head"] = -1
        heads = self._alternatives * LEAST_HEADS
        slots["heads"] = memory.resized(0, heads)
        slots["mask"] = LEAST_HEADS - 1
        memory.view(int(slots["heads"]), heads)[:] = -1
        self.tables.classes["live"] = 0

    @property
    def _slot_words(self) -> int:
        """Words of a slot."""
        return int(self._fixed_frame["slot_size"]) // 8

    def _memory(self) -> Rows:
        """All slots, as an array that is valid until they move."""
        width, capacity = self._slot_words, int(self._slots["capacity"])
        return memory.view(self._slots["rows"], capacity * width).reshape(capacity, width)

    def _release(self) -> None:
        for name in ("rows", "heads", "arena"):
            memory.free(int(self._slots[name]))
            self._slots[name] = 0

    def __del__(self) -> None:
        self._release()

    @property
    def instances(self) -> int:
        return int(self._slots["count"])

    @property
    def state_bytes(self) -> int:
        heads = self._alternatives * (int(self._slots["mask"]) + 1)
        words = int(self._slots["capacity"]) * self._slot_words
        return 8 * (words + heads + int(self._slots["arena_size"]))

    @property
    def index_bytes(self) -> int:
        return self.tables.nbytes

    def _rows(self) -> Rows:
        """The slots that have been used, free ones included, without links and hashes."""
        width = self._layout.width
        held = self._memory()[: int(self._slots["high"])]
        return np.concatenate([held[:, :width], held[:, -1:]], axis=1)

    def _arena(self) -> Words:
        return memory.view(self._slots["arena"], int(self._slots["arena_used"])).copy()

    def snapshot(self) -> State:
        """Instances as they lie, and what the numbers in them stand for."""
        self._spell_sets()
        tables = self.tables
        budget = self._context.instance_budget
        return {
            "columns": _packed(self._layout.names),
            "rows": self._rows(),
            "arena": self._arena(),
            "groups": tables.groups.signatures[: tables.groups.high],
            "firsts": tables.first_signatures[: tables.firsts],
            "stopped": _words([w for entry in self._given_up for w in (*entry, budget)]),
        }

    def restore(self, state: State) -> None:
        """Take up saved instances; members are there already, under whatever numbers.

        The instances may have other columns than those that members need now. A column that they
        don't have is NULL. Only members see it that came later, and these have no results of
        instances that began before.
        """
        width = self._layout.width
        saved = Layout(_unpacked(state["columns"]))
        _check_instances(state, saved.width)
        rows = _with_columns(state["rows"].reshape(-1, saved.width + 1), saved, self._layout)
        arena, tables = state["arena"], self.tables
        groups = tables.groups.find(state["groups"].reshape(-1, 2))
        firsts = _found(tables.first_signatures[: tables.firsts], state["firsts"].reshape(-1, 2))
        # Nodes that nobody has any more get a number that no state waits under.
        nowhere = tables.firsts
        tables.know_nobody(nowhere)
        firsts = np.where(firsts < 0, nowhere, firsts)
        cells = arena >> 32
        arena = (firsts[cells] << 32) | (arena & 0xFFFFFFFF) if len(arena) else arena
        words = rows[:, width]
        live = rows[:, END] != FREE
        single = live & ((words & 0x80000000) != 0)
        member = np.where(single, words & 0x7FFFFFFF, 0)
        code = (
            np.where(single, 0x80000000 | firsts[member], words & 0xFFFFFFFF)
            if len(firsts)
            else words & 0xFFFFFFFF
        )
        group = np.full(len(rows), -1, np.int64)
        group[live] = groups[words[live] >> 32]
        rows[:, width] = (np.maximum(group, 0) << 32) | code
        rows[live & (group < 0), END] = FREE
        self._restore_stopped(state["stopped"].reshape(-1, 4))
        self._reset(rows, arena)
        maintenance.purge(self._frame(), Slots.at(self._slots))

    def _restore_stopped(self, entries: Words) -> None:
        for a, b, at, budget in entries.tolist():
            (number,) = self.tables.states.find(np.array([[a, b]], np.int64)).tolist()
            # With a larger budget it goes on from now; what it held is gone.
            if number >= 0 and self._context.instance_budget <= budget:
                self._given_up.append((a, b, at))
                for out in self.tables.stop(_words([number])).tolist():
                    self.stopped[out] = at

    def held(self) -> Held | None:
        rows = self._memory()[: int(self._slots["high"]), : self._layout.width].copy()
        types = tuple(a.type for a in self._spec.columns)
        return Held(rows[rows[:, END] != FREE], self._layout, types)

    def replace_held(self, rows: Rows) -> None:
        held = self._memory()[: int(self._slots["high"])]
        held[held[:, END] != FREE, : self._layout.width] = rows
        maintenance.rebuild(self._frame(), Slots.at(self._slots))

    def forget_codes(self) -> None:
        self.tables.forward.forget_codes()

    def describe(self) -> dict[str, Any]:
        return self.tables.describe()

    def waiting(self, now: int) -> Words:
        """How many instances each output node has at this time."""
        self.sets.refresh()
        counts = np.zeros(max(1, self.tables.states.high), np.int64)
        count_instances(self._frame(), Slots.at(self._slots), now, WordPointer.at(counts))
        self.sets.spread(counts)
        return counts[self.tables.state_of[: self.tables.outs.high]]


def _check_instances(state: State, width: int) -> None:
    """Instances have groups and members that were saved, and lists of members end."""
    rows, arena = checks.table(state, "rows", width + 1), state["arena"]
    groups, firsts = checks.table(state, "groups", 2), checks.table(state, "firsts", 2)
    checks.table(state, "stopped", 4)
    words = rows[rows[:, END] != FREE, width]
    checks.within(words >> 32, 0, len(groups), "groups of instances")
    codes = words & 0xFFFFFFFF
    single = (codes & 0x80000000) != 0
    checks.within(codes[single] & 0x7FFFFFFF, 0, len(firsts), "members of instances")
    checks.within(codes[~single], 0, len(arena), "lists of members")
    checks.within(arena >> 32, 0, max(len(firsts), 1), "members in lists")
    following = arena & 0xFFFFFFFF
    own = np.arange(len(arena))
    if ((following >= own) & (following != 0xFFFFFFFF)).any():
        raise damaged("a list of members does not end")


def _packed(names: SequenceOf[str]) -> Words:
    """Names as words."""
    text = "\0".join(names).encode()
    return np.frombuffer(text.ljust(-(-len(text) // 8) * 8, b"\0"), np.int64)


def _unpacked(words: Words) -> tuple[str, ...]:
    text = words.tobytes().rstrip(b"\0").decode(errors="replace")
    names = tuple(text.split("\0")) if text else ()
    if len(set(names)) < len(names):
        raise damaged("two columns of instances have one name")
    return names


def _with_columns(rows: Rows, saved: Layout, layout: Layout) -> Rows:
    """Instances with just the columns of a layout; those that they don't have are NULL."""
    if saved == layout:
        return rows
    out = np.zeros((len(rows), layout.width + 1), np.int64)
    out[:, :MASK], out[:, -1] = rows[:, :MASK], rows[:, -1]
    places = {name: place for place, name in enumerate(saved.names)}
    missing = np.ones(len(rows), np.bool_)
    for column, name in enumerate(layout.names):
        place = places.get(name)
        if place is None:
            set_nulls(out, column, missing)
            continue
        out[:, layout.base + column] = rows[:, saved.base + place]
        set_nulls(out, column, nulls_of(rows, place))
    return out


_PAIR = np.dtype([("a", np.int64), ("b", np.int64)])


def _found(known: Words, wanted: Words) -> Words:
    """Where each wanted signature is among those that are known, or -1."""
    if not len(known) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    if np.array_equal(known[: len(wanted)], wanted):
        return np.arange(len(wanted))  # the same queries as when it was saved
    places = np.ascontiguousarray(known).view(_PAIR).ravel()
    asked = np.ascontiguousarray(wanted).view(_PAIR).ravel()
    order = np.argsort(places, kind="stable")
    at = np.minimum(np.searchsorted(places[order], asked), len(order) - 1)
    return np.where(places[order][at] == asked, order[at], -1)


def _taken(vector: Any) -> Words:
    """The words of a vector, which has one owner from now on."""
    return memory.taken(int(vector["items"][0]), int(vector["count"][0]))


def _pairs(first: Batch, sets: Words) -> Words:
    if first.index is None or first.members is None:
        return np.arange(len(first.rows), dtype=np.int64) << 32
    return packed_pairs(first.index, first.members, sets)


def _none() -> np.ndarray:
    return np.empty(0, np.int32)


def _words(values: list[int]) -> Words:
    return np.array(values, np.int64)
