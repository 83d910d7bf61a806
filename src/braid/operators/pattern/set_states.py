"""Sets of first nodes in a step: an event that starts for all of them is one instance with one
member, and what comes of it goes on as one.

For each set there are states of its own, made from the states of its nodes: one for all states
of a group that let everything go on, and a copy of each of the others. They are made anew when
members come or go; instances know the set, not these states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from braid.operators.core.batch import Batch
from braid.operators.core.bit_sets import BitSets
from braid.operators.core.bounds import UNBOUNDED
from braid.operators.core.node_sets import Sets
from braid.operators.core.nodes import signatures
from braid.operators.core.values import Words
from braid.operators.pattern.kernels.records import INDEXED, Alias, Head

if TYPE_CHECKING:
    from braid.operators.pattern.pattern_tables import States

#: The bound, in a key, of states whose members' bounds are asked where results come out.
_OUTSIDE = -9
_NO_SETS: Words = np.empty(0, np.int64)


class SetStates:
    def __init__(self, tables: States) -> None:
        self._tables = tables
        self._reset()

    def _reset(self) -> None:
        #: The sets that instances may have, by content.
        self.known = Sets()
        #: What comes out of their states.
        self.outs = Sets()
        self.heads: Any = np.full(1, -1, Head.dtype)
        #: States here and the states that they stand for.
        self.aliases: Any = np.empty(0, Alias.dtype)
        self._own: Words = np.empty(0, np.int64)
        self._mapped: tuple[Sets | None, Words] = (None, np.empty(0, np.int64))
        self._made = (-1, -1)

    def numbers(self, first: Batch) -> Words:
        """This step's numbers for the sets of a batch."""
        assert not isinstance(first.sets, BitSets)
        if first.sets is None:
            return _NO_SETS
        source, numbers = self._mapped
        if source is not first.sets or len(numbers) != len(first.sets):
            nodes = first.sets.nodes
            numbers = np.array([self.known.member(n) for n in nodes], np.int64)
            self._mapped = (first.sets, numbers)
        return numbers

    def refresh(self) -> None:
        """Make the states of all sets, if the tables or the sets have changed."""
        now = (len(self.known), self._tables.changes)
        if not len(self.known) or now == self._made:
            return
        tables = self._tables
        tables.states.retire(tables.states.release(self._own))
        self.outs = Sets()
        self.heads = np.full(len(self.known), -1, Head.dtype)
        own, aliases = [], []
        for number, nodes in enumerate(self.known.nodes):
            states = tables.waiting_for(nodes)
            records = tables.state_table[states]
            together = (records["edge"] < 0) & (records["test"] != INDEXED)
            together &= records["out"] >= 0
            for made, meant in (
                self._joined(number, states[together]),
                self._copied(number, states[~together]),
            ):
                own.append(made)
                aliases.append(meant)
        self._own = np.concatenate(own)
        self.aliases = np.concatenate(aliases)
        self._made = now

    def _joined(self, number: int, states: Words) -> tuple[Words, Any]:
        """One state for all of a group that want the same; pairs of it and what it stands for."""
        tables = self._tables
        records = tables.state_table[states]
        keys = np.column_stack([records["group"], records["bound"]])
        keys[tables.outside[states], 1] = _OUTSIDE
        keys, which = np.unique(keys, axis=0, return_inverse=True)
        which = which.reshape(-1)
        new = self._new(("set", number), [keys[:, 0], keys[:, 1]], len(keys))
        table = tables.state_table
        for k, state in enumerate(new.tolist()):
            own = records[which == k]
            bounds = own["bound"]
            table[state] = own[0]
            unbounded = (bounds == UNBOUNDED).any()
            table["bound"][state] = UNBOUNDED if unbounded else bounds.max()
            table["out"][state] = self.outs.member(own["out"])
        self._link(number, new)
        return new, _aliases(new[which], states)

    def _copied(self, number: int, states: Words) -> tuple[Words, Any]:
        """A copy of each state, with the same edges."""
        new = self._new(("copy", number), [states], len(states))
        self._tables.state_table[new] = self._tables.state_table[states]
        self._link(number, new)
        return new, _aliases(new, states)

    def _new(self, what: object, columns: list[Words], count: int) -> Words:
        tables = self._tables
        numbers, _ = tables.states.add(signatures(what, count, [c.copy() for c in columns]))
        tables.make_room(tables.states.high)
        tables.first_of[numbers] = -1
        return numbers

    def _link(self, number: int, new: Words) -> None:
        self._tables.link_states(self.heads, np.full(len(new), number, np.int64), new)

    def spelled(self) -> tuple[Words, Words]:
        """Where the nodes of each set begin, and all of them; without those of other steps."""
        known = Sets()
        known.nodes = [nodes[nodes < self._tables.firsts] for nodes in self.known.nodes]
        _, starts, nodes = known.laid()
        return starts, nodes

    def forget(self) -> None:
        """No instance has a set any more."""
        self._tables.states.retire(self._tables.states.release(self._own))
        self._reset()

    def meant(self, states: Words) -> Words:
        """The states that copies stand for, and others as they are."""
        if not len(self.aliases):
            return states
        real = np.arange(self._tables.states.high)
        real[self.aliases["state"]] = self.aliases["meant"]
        return real[states]

    def spread(self, counts: Words) -> None:
        """Count what waits in states of sets where it belongs."""
        np.add.at(counts, self.aliases["meant"], counts[self.aliases["state"]])

    @property
    def count(self) -> int:
        return len(self._own)


def _aliases(states: Words, meant: Words) -> Any:
    aliases = np.empty(len(states), Alias.dtype)
    aliases["state"], aliases["meant"] = states, meant
    return aliases
