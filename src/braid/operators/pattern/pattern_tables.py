"""The members of a step as the loop reads them: groups, states, edges, atoms, parameters.

A member of a step is a path through three kinds of nodes. Its *group* is what it asks of the
second event and computes with; its *state* is its first node waiting in that group, with a
bound; its *output node* is the state and the selection of the composites. Members with equal
nodes so far share them (prefix merging).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braid.algebra.expressions import TRUE, Expression, is_true
from braid.operators.core.base import Context
from braid.operators.core.batch import Batch
from braid.operators.core.bounds import DEAD, bound_of
from braid.operators.core.constants import Constants
from braid.operators.core.kernels.keys import WORD
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.node_sets import SET
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Words
from braid.operators.pattern.edges import Edges
from braid.operators.pattern.kernels import admission
from braid.operators.pattern.kernels.records import (
    INDEXED,
    NO_TEST,
    UNSET,
    Edge,
    Group,
    Head,
    KeyClass,
    State,
)
from braid.operators.pattern.kernels.records import (
    Atom as AtomRecord,
)
from braid.operators.pattern.spec import StepRecipe, StepSpec
from braid.operators.select.clause_table import ClauseTable, among, limits, mode_of
from braid.operators.select.logic import contents, form
from braid.plan.layout import Layout
from braid.plan.predicates import Atom, Clause, Constant, KeyColumn, Predicate

#: A state with more forward edges than this has the others in an index.
FEW_EDGES = 8
#: More classes than this would cost more to probe than they save.
MAX_CLASSES = 32
#: So many states are worth being laid together.
MANY_STATES = 16_384
#: Tests of a forward selection that are looked for among those before it: a bit for each.
_MOST_SAID = 62
#: Static keys of a class.
MAX_KEYS = 2
#: Tests that the loop makes by itself.
_SIMPLE = frozenset({"between", "ne", "in", "not in", "null", "not null"})


class States:
    """Tables of one step."""

    def __init__(self, spec: StepSpec, context: Context, second: Layout) -> None:
        self._spec = spec
        self._context = context
        self._second = second
        self.groups, self.states, self.outs = Nodes(), Nodes(), Nodes()
        #: Head and digest of each first node.
        self.heads: Any = np.full(8, -1, Head.dtype)
        self.first_signatures = np.zeros((8, 2), np.int64)
        self.firsts = 0
        self.group_table: Any = np.zeros(8, Group.dtype)
        self.state_table: Any = np.zeros(8, State.dtype)
        self.edges = Edges()
        self.classes: Any = np.zeros(MAX_CLASSES, KeyClass.dtype)
        self._class_of: dict[tuple[int, ...], int] = {(): 0}
        self.atoms: Any = np.zeros(8, AtomRecord.dtype)
        self._atoms_used = 0
        self.sets: Words = np.zeros(8, np.int64)
        self._sets_used = 0
        self.parameters: Words = np.zeros(8, np.int64)
        self._parameters_used = 0
        self.first_of: Words = np.zeros(8, np.int64)
        self.state_of: Words = np.zeros(8, np.int64)
        self._edge_counts: Words = np.zeros(8, np.int64)
        self._gone = 0
        #: Changes with every member that comes or goes.
        self.changes = 0
        #: How many states there were when they were last laid together.
        self._laid = 0
        #: States whose members' bounds are asked where results come out.
        self.outside = np.zeros(8, np.bool_)
        self._width = 0
        self._forward_width = 0
        #: The compiled part of forward edges that the loop asks, once a member has one.
        self.forward_shape: Expression | None = None
        self.forward = ClauseTable(
            spec.output, context, numbered=True, settings=context.selections.of()
        )

    @property
    def class_count(self) -> int:
        return len(self._class_of)

    # ---- coming ----

    def admit(
        self, recipe: StepRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        self.changes += 1
        first = origins[0] or nobody(constants.count)
        second = origins[1]
        self._know_firsts(first)
        groups = self._admit_groups(recipe, constants, second)
        states = self._admit_states(recipe, constants, first, groups)
        return self._admit_outs(recipe, constants, states)

    def _know_firsts(self, first: Origin) -> None:
        if not len(first.numbers):
            return
        self.firsts = max(self.firsts, int(first.numbers.max()) + 1)
        self._make_room_for_firsts(self.firsts)
        self.first_signatures = grown(self.first_signatures, self.firsts)
        self.first_signatures[first.numbers] = first.signatures

    def know(self, first: Batch) -> None:
        """Nodes of the first input that are somebody else's lead to no state."""
        if first.members is not None and len(first.members):
            members = first.members
            if first.sets is not None:
                if int(members.min()) >= SET:
                    return
                members = members[members < SET]
            self._make_room_for_firsts(int(members.max(initial=0)) + 1)

    def know_nobody(self, node: int) -> None:
        """A first node that nobody has and no state waits under."""
        self._make_room_for_firsts(node + 1)
        self.heads[node] = -1

    def _make_room_for_firsts(self, count: int) -> None:
        self.heads = grown(self.heads, count, -1)

    def _write_digests(self, nodes: Words) -> None:
        tables = State.at(self.state_table), Edge.at(self.edges.table)
        admission.write_digests(Head.at(self.heads), *tables, nodes)

    def lay_together(self, near: Callable[[], Words | None]) -> None:
        """Number states in the order of words that say which of their first nodes come together.

        Queries come in an order that has nothing to do with the events that they want. What an
        event begins are then states all over a table that no cache holds.
        """
        if self.states.count < max(MANY_STATES, 3 * self._laid // 2):
            return
        words, high = near(), self.states.high
        if words is None:
            return
        self._laid = self.states.count
        # Edges in the index know the numbers of their states.
        moving = (self.states.uses[:high] > 0) & (self.first_of[:high] < len(words))
        moving &= (self.first_of[:high] >= 0) & (self.state_table["test"][:high] != INDEXED)
        places = np.flatnonzero(moving)
        new = np.arange(high)
        new[places[np.argsort(words[self.first_of[places]], kind="stable")]] = places
        self.states.renumber(new)
        for array in (self.state_table, self.first_of, self._edge_counts, self.outside):
            array[new] = array[:high].copy()
        used = np.flatnonzero(self.states.uses[:high] > 0)
        used = used[self.state_table["next"][used] >= 0]
        self.state_table["next"][used] = new[self.state_table["next"][used]]
        outs = np.flatnonzero(self.outs.uses[: self.outs.high] > 0)
        self.state_of[outs] = new[self.state_of[outs]]
        begins = self.heads["state"] >= 0
        self.heads["state"][begins] = new[self.heads["state"][begins]]
        self.edges.lay_together(outs, self.state_of[outs], self.state_table)

    def make_room(self, states: int) -> None:
        self.state_table = grown(self.state_table, states)
        self.first_of = grown(self.first_of, states)
        self._edge_counts = grown(self._edge_counts, states)
        self.outside = grown(self.outside, states)

    def waiting_for(self, nodes: Words) -> Words:
        """The states of some first nodes."""
        high = self.states.high
        living = (self.states.uses[:high] > 0) & (self.state_table["bound"][:high] != DEAD)
        return np.flatnonzero(living & np.isin(self.first_of[:high], nodes))

    def _admit_groups(
        self, recipe: StepRecipe, constants: Constants, second: Origin | None
    ) -> Origin:
        tests = Predicate((recipe.tests,), TRUE, recipe.constants)
        columns = contents(tests, constants)
        if second is not None:
            columns += [second.signatures[:, 0].copy(), second.signatures[:, 1].copy()]
        if not self._spec.merged:
            columns.append(constants.identity)
        wanted = signatures(("group", form(tests)), constants.count, columns)
        numbers, rows = self.groups.add(wanted)
        if len(rows):
            read = None if second is None else second.numbers[rows]
            self._new_groups(recipe, constants.chosen(rows), numbers[rows], read)
        return origin_of(self.groups, numbers)

    def _new_groups(
        self, recipe: StepRecipe, constants: Constants, new: Words, second: Words | None
    ) -> None:
        self.group_table = grown(self.group_table, int(new.max()) + 1)
        table = self.group_table
        table[new] = 0
        table["bound"][new] = UNSET
        table["stamp"][new] = table["slot"][new] = -1
        keys, rest = self._static_keys(recipe.tests)
        codes = [self._test(atom, self._second) >> 8 for atom in keys]
        # As in a class: column << 8 | mode.
        columns = [((code >> 8) << 8) | (code & 255) for code in codes]
        values = [limits(atom, constants)[1] for atom in keys]
        if second is not None:
            columns.append((self._second.column("#") << 8) | WORD)
            values.append(second)
        class_ = self._class(tuple(columns))
        if class_ is None:  # too many already: tested instead
            rest = recipe.tests
            columns, values = columns[len(keys) :], values[len(keys) :]
            class_ = self._class(tuple(columns)) or 0
        table["key_class"][new] = class_
        for k, value in enumerate(values):
            table["keys"][new, k] = value
        table["atoms"][new] = len(rest)
        table["first_atom"][new] = self._new_atoms(rest, constants, self._second)
        table["parameters"][new] = self._new_parameters(recipe, constants)

    def _static_keys(self, tests: Clause) -> tuple[list[Atom], Clause]:
        """The equalities by which instances are found, and the other tests."""
        if not self._spec.static_index:
            return [], tests
        room = MAX_KEYS - int(self._spec.second_membered)
        keys = [a for a in tests if a.is_equality][:room]
        return keys, tuple(a for a in tests if a not in keys)

    def _class(self, columns: tuple[int, ...]) -> int | None:
        known = self._class_of.get(columns)
        if known is not None:
            return known
        needed = "#" in self._second.names and len(columns) == 1
        if len(self._class_of) >= MAX_CLASSES - 2 and not needed:
            return None
        number = self._class_of[columns] = len(self._class_of)
        self.classes["count"][number] = len(columns)
        self.classes["columns"][number, : len(columns)] = columns
        return number

    def _test(self, atom: Atom, layout: Layout) -> int:
        """Kind, mode and column of an atom, without its kind."""
        column = 0 if atom.key.name is None else layout.column(atom.key.name)
        return (column << 16) | (mode_of(atom.key) << 8)

    def _new_atoms(self, tests: Clause, constants: Constants, layout: Layout) -> Words:
        """Atoms of each member; where each member's begin."""
        members, size = constants.count, len(tests)
        begin = self._atoms_used + size * np.arange(members, dtype=np.int64)
        self._atoms_used += size * members
        self.atoms = grown(self.atoms, self._atoms_used)
        for k, atom in enumerate(tests):
            kind, low, high = self._limits(atom, constants)
            self.atoms["test"][begin + k] = self._test(atom, layout) | kind
            self.atoms["low"][begin + k] = low
            self.atoms["high"][begin + k] = high
        return begin

    def _limits(self, atom: Atom, constants: Constants) -> tuple[int, Words, Words]:
        kind, low, high = limits(atom, constants)
        if atom.among:
            values = among(atom, constants)
            low = self._sets_used + values.shape[1] * np.arange(len(values), dtype=np.int64)
            high = low + values.shape[1]
            end = self._sets_used + values.size
            self.sets = grown(self.sets, end)
            self.sets[self._sets_used : end] = values.reshape(-1)
            self._sets_used = end
        return kind, low, high

    def _new_parameters(self, recipe: StepRecipe, constants: Constants) -> Words:
        self._width = len(recipe.constants)
        return self._new_words(recipe.constants, constants)

    def _new_words(self, asked: Sequence[Constant], constants: Constants) -> Words:
        """The constants of each member side by side; where each member's begin."""
        width = len(asked)
        begin = self._parameters_used + width * np.arange(constants.count, dtype=np.int64)
        self._parameters_used += width * constants.count
        self.parameters = grown(self.parameters, self._parameters_used + 1)
        for k, constant in enumerate(asked):
            self.parameters[begin + k] = constants.words(constant)
        return begin

    def _admit_states(
        self, recipe: StepRecipe, constants: Constants, first: Origin, groups: Origin
    ) -> Origin:
        bound = bound_of(recipe.bounds, constants)
        columns = [*first.signatures.T.copy(), *groups.signatures.T.copy()]
        if recipe.bounded_outside:
            # Only how long an instance is of use to somebody is asked here.
            what, bound = "state, bounded outside", np.where(bound == DEAD, 0, bound)
        else:
            what = "state"
            columns.append(bound)
        numbers, rows = self.states.add(signatures(what, constants.count, columns))
        if len(rows):
            new = numbers[rows]
            self.make_room(int(new.max()) + 1)
            self.outside[new] = recipe.bounded_outside
            table = self.state_table
            table["group"][new] = groups.numbers[rows]
            table["bound"][new] = bound[rows]
            table["edge"][new] = table["out"][new] = -1
            table["test"][new] = NO_TEST
            self._edge_counts[new] = 0
            self.first_of[new] = first.numbers[rows]
            self.link_states(self.heads, self.first_of[new], new)
        if recipe.bounded_outside:
            tables = State.at(self.state_table), Group.at(self.group_table)
            admission.lengthen(*tables, numbers, bound)
        return origin_of(self.states, numbers)

    def link_states(self, heads: Any, firsts: Words, new: Words) -> None:
        """Hang new states under first nodes, or under sets of these."""
        tables = State.at(self.state_table), Group.at(self.group_table)
        admission.link_states(Head.at(heads), *tables, firsts, new)

    def _admit_outs(self, recipe: StepRecipe, constants: Constants, states: Origin) -> Origin:
        forward = recipe.forward
        columns = [*states.signatures.T.copy(), *contents(forward, constants)]
        wanted = signatures(("out", form(forward)), constants.count, columns)
        numbers, rows = self.outs.add(wanted)
        if len(rows):
            new, owners = numbers[rows], states.numbers[rows]
            size = int(new.max()) + 1
            self.state_of = grown(self.state_of, size)
            self.state_of[new] = owners
            self.edges.know_outs(new)
            part = constants.chosen(rows)
            for forward, some in self._unsaid(recipe, part):
                self._new_outs(forward, part.chosen(some), new[some], owners[some])
        return origin_of(self.outs, numbers)

    def _unsaid(
        self, recipe: StepRecipe, constants: Constants
    ) -> Iterator[tuple[Predicate, Words]]:
        """The forward selection without what the tests of the second event say already, and whose.

        A query over one name asks for it in every step: the event that made the composite has
        passed that test, and asking again first would cost a look at every member's next one.
        """
        forward = recipe.forward
        atoms = forward.clauses[0] if len(forward.clauses) == 1 else ()
        origins = {source: source[2:] for source in self._spec.emit if source[:2] == "e:"}
        tests = [(test.key, limits(test, constants)) for test in recipe.tests if _is_between(test)]
        said = np.zeros(constants.count, np.int64)
        for k, atom in enumerate(atoms[:_MOST_SAID]):
            name = origins.get(atom.key.name or "")
            if name is None or not _is_between(atom):
                continue
            _, low, high = limits(atom, constants)
            for key, (_, lows, highs) in tests:
                if key == KeyColumn(name, atom.key.mode):
                    said |= ((lows >= low) & (highs <= high)).astype(np.int64) << k
        for which in np.unique(said).tolist():
            kept = tuple(atom for k, atom in enumerate(atoms) if not which >> k & 1)
            rest = replace(forward, clauses=(kept,)) if which else forward
            yield rest, np.flatnonzero(said == which)

    def _new_outs(
        self, forward: Predicate, constants: Constants, new: Words, owners: Words
    ) -> None:
        if forward.trivial:
            self.state_table["out"][owners] = new
            self._write_tests(owners)
            return
        simple = len(forward.clauses) == 1 and all(
            atom.kind in _SIMPLE for atom in forward.clauses[0]
        )
        if simple and not is_true(forward.residual):
            # The loop can ask one compiled part; members with another one are asked outside.
            self.forward_shape = self.forward_shape or forward.residual
            simple = self.forward_shape == forward.residual
        np.add.at(self._edge_counts, owners, 1)
        few = self._edge_counts[owners] <= FEW_EDGES
        if not self._spec.forward_index:
            few[:] = True
        if not simple:
            few[:] = False
        inline, indexed = np.flatnonzero(few), np.flatnonzero(~few)
        if len(inline):
            part = constants.chosen(inline)
            self._new_edges(forward, part, new[inline], owners[inline])
        if len(indexed):
            self.state_table["test"][owners[indexed]] = INDEXED
            part = constants.chosen(indexed)
            self.forward.add(forward, part, new[indexed], owners[indexed])
        self._write_tests(owners)

    def _write_tests(self, states: Words) -> None:
        admission.write_tests(State.at(self.state_table), Edge.at(self.edges.table), states)
        self._write_digests(self.first_of[states])

    def _new_edges(
        self, forward: Predicate, constants: Constants, new: Words, owners: Words
    ) -> None:
        (clause,), count = forward.clauses, len(new)
        numbers = self.edges.take(count)
        table, layout = self.edges.table, self._spec.output.layout
        ordered = tuple(sorted(clause, key=lambda a: not a.is_equality))
        table["out"][numbers] = new
        table["atoms"][numbers] = len(ordered)
        if ordered:
            kind, low, high = self._limits(ordered[0], constants)
            table["test"][numbers] = self._test(ordered[0], layout) | kind
            table["low"][numbers] = low
            table["high"][numbers] = high
            table["first_atom"][numbers] = self._new_atoms(ordered[1:], constants, layout)
        table["parameters"][numbers] = -1
        if not is_true(forward.residual):
            self._forward_width = len(forward.constants)
            table["parameters"][numbers] = self._new_words(forward.constants, constants)
        self.edges.of[new] = numbers
        admission.link_edges(State.at(self.state_table), Edge.at(table), owners, numbers)

    # ---- going ----

    def dismiss(self, numbers: Words) -> tuple[Words, Words, Words]:
        """Members leave; the output nodes, states and groups that nobody uses any more.

        Their numbers stay taken until `retire`: events and instances may still have them.
        """
        self.changes += 1
        states = self.state_of[numbers]
        groups = self.state_table["group"][states]
        outs = self.outs.release(numbers)
        self._drop_outs(outs)
        gone = self.states.release(states)
        tables = Head.at(self.heads), State.at(self.state_table)
        admission.unlink_states(*tables, self.first_of[gone], gone)
        self._write_digests(self.first_of[gone])
        return outs, gone, self.groups.release(groups)

    def _drop_outs(self, outs: Words) -> None:
        owners = self.state_of[outs]
        edges = self.edges.of[outs]
        inline = edges >= 0
        tables = State.at(self.state_table), Edge.at(self.edges.table)
        admission.unlink_edges(*tables, owners[inline], edges[inline])
        self.edges.give_back(edges[inline])
        trivial = self.state_table["out"][owners] == outs
        self.state_table["out"][owners[trivial]] = -1
        indexed = ~inline & ~trivial
        self.forward.remove(outs[indexed])
        np.subtract.at(self._edge_counts, owners[~trivial], 1)
        self._write_tests(owners)

    def retire(self, states: Words, groups: Words) -> None:
        self.states.retire(states)
        self.groups.retire(groups)
        self._gone += len(groups) + len(states)
        if self._gone > 1024 and self._gone > self.groups.count + self.states.count:
            self._compact()

    def _compact(self) -> None:
        """Copy the atoms and parameters that are in use, and let go of the rest."""
        self._gone = 0
        groups = np.flatnonzero(self.groups.uses[: self.groups.high] > 0)
        outs = np.flatnonzero(self.outs.uses[: self.outs.high] > 0)
        edges = self.edges.of[outs]
        edges = edges[edges >= 0]
        table, edge_table = self.group_table, self.edges.table
        owned = np.maximum(edge_table["atoms"][edges] - 1, 0)
        self.atoms, self._atoms_used = _compacted(
            self.atoms,
            (table["first_atom"], groups, table["atoms"][groups]),
            (edge_table["first_atom"], edges, owned),
        )
        asking = edges[edge_table["parameters"][edges] >= 0]
        self.parameters, self._parameters_used = _compacted(
            self.parameters,
            (table["parameters"], groups, np.full(len(groups), self._width)),
            (edge_table["parameters"], asking, np.full(len(asking), self._forward_width)),
        )

    def stop(self, states: Words) -> Words:
        """States that gave up wait for nothing any more; their output nodes."""
        self.changes += 1
        self.state_table["bound"][states] = DEAD
        admission.mark_stopped(Head.at(self.heads), self.first_of[states])
        self._write_digests(self.first_of[states])
        known = np.arange(self.outs.high)
        return known[np.isin(self.state_of[: self.outs.high], states)]

    @property
    def nbytes(self) -> int:
        arrays = (
            self.heads,
            self.first_signatures,
            self.group_table,
            self.state_table,
            self.atoms,
            self.sets,
            self.parameters,
            self.first_of,
            self.state_of,
            self._edge_counts,
            self.outside,
        )
        nodes = self.groups.nbytes + self.states.nbytes + self.outs.nbytes
        return (
            nodes + self.forward.nbytes + self.edges.nbytes + sum(array.nbytes for array in arrays)
        )

    def describe(self) -> dict[str, Any]:
        """What the members have become, for `explain` and `stats`."""
        return {
            "groups": self.groups.count,
            "states": int(np.count_nonzero(self._in_use())),
            "outputs": self.outs.count,
            "classes": self.class_count,
            "static": self._describe_classes(),
            "bounds": self._describe_bounds(),
            "edges": len(self.edges),
            "forward": self.forward.describe() if self.forward.count else None,
        }

    def _in_use(self) -> np.ndarray:
        """Which states are somebody's, those of sets left out."""
        high = self.states.high
        return np.asarray((self.states.uses[:high] > 0) & (self.first_of[:high] >= 0))

    def _describe_classes(self) -> list[dict[str, Any]]:
        """The classes that some group is in: their static keys, and how many groups."""
        living = np.flatnonzero(self.groups.uses[: self.groups.high] > 0)
        counts = np.bincount(self.group_table["key_class"][living], minlength=self.class_count)
        return [
            {
                "columns": [self._second.names[code >> 8] for code in codes],
                "groups": int(counts[number]),
            }
            for codes, number in self._class_of.items()
            if counts[number]
        ]

    def _describe_bounds(self) -> dict[str, int | None]:
        """The range of the bounds of all states, and how many have none."""
        living = np.flatnonzero(self._in_use())
        bounds = self.state_table["bound"][living]
        known = bounds[bounds >= 0]
        return {
            "lowest": int(known.min()) if len(known) else None,
            "highest": int(known.max()) if len(known) else None,
            "unbounded": int(np.count_nonzero(bounds == -1)),
        }


def _compacted(items: Any, *owners: tuple[Any, Words, Words]) -> tuple[Any, int]:
    """The slices of some items that are in use, one after the other, and how many items that are.

    An owner is a column of the places where slices begin, which of them are in use, and the sizes
    of these. The column gets the new places.
    """
    chosen, used = [], 0
    for places, which, sizes in owners:
        begin = used + np.cumsum(sizes) - sizes
        chosen.append(np.repeat(places[which] - begin, sizes) + used + np.arange(sizes.sum()))
        places[which] = begin
        used += int(sizes.sum())
    kept = np.zeros(max(8, used + 1), items.dtype)
    kept[:used] = items[np.concatenate(chosen)]
    return kept, used


def _is_between(atom: Atom) -> bool:
    return atom.kind == "between"
