"""Selection: for each member the events for which its predicate is true, all members at once.

One m-op for all selections of a channel. Each belongs to a *port*, the operator that reads it:
a step of a pattern, a projection, or the outside. Equal predicates of one port are one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braid.operators.core.base import Context, Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.roles import NodesByPort
from braid.operators.core.selection_settings import Form
from braid.operators.select.clause_table import ClauseTable
from braid.operators.select.spec import SelectionSpec, SelectRecipe
from braid.plan.predicates import Predicate


def contents(predicate: Predicate, constants: Constants) -> list[np.ndarray]:
    """What tells predicates of one form apart: all constants, as content."""
    asked = [
        c
        for clause in predicate.clauses
        for atom in clause
        for c in (atom.low, atom.high, *atom.among)
        if c is not None
    ]
    return [words for c in (*asked, *predicate.constants) for words in constants.content(c)]


def form(predicate: Predicate) -> object:
    """What predicates of one form have in common."""
    clauses = tuple(
        tuple(
            (a.kind, a.key, a.low is None, a.high is None, a.low_open, a.high_open, len(a.among))
            for a in clause
        )
        for clause in predicate.clauses
    )
    return (clauses, predicate.residual)


class SelectionLogic(Stateless, NodesByPort):
    def __init__(self, spec: SelectionSpec, context: Context, streams: Sequence[str] = ()) -> None:
        """`streams`: those whose events it reads, for which a user may have settings."""
        self._spec = spec
        settings = context.selections.of(*streams)
        if not spec.indexed:
            settings = replace(settings, form=Form.IN_TURN)
        self.table = ClauseTable(spec.input, context, numbered=spec.membered, settings=settings)
        self.ports: dict[str, Nodes] = {}
        self._port_numbers: dict[str, int] = {}
        # Targets of the table are numbers of all ports; these say which port and which node.
        self._target_port = np.zeros(8, np.int32)
        self._target_node = np.zeros(8, np.int32)
        self._target_of: dict[str, np.ndarray] = {}
        self._targets = 0
        self._free: list[int] = []
        self._direct: np.ndarray | None = None
        self._stale = True

    def admit(
        self, recipe: SelectRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        self._stale = True
        nodes = self.ports.setdefault(recipe.port, Nodes())
        port = self._port_numbers.setdefault(recipe.port, len(self._port_numbers))
        what = form(recipe.predicate)
        columns = contents(recipe.predicate, constants)
        (origin,) = origins
        if origin is not None:
            columns += [origin.signatures[:, 0].copy(), origin.signatures[:, 1].copy()]
        numbers, rows = nodes.add(signatures(what, constants.count, columns))
        if len(rows):
            targets = self._new_targets(port, recipe.port, numbers[rows])
            read = None if origin is None else origin.numbers[rows]
            self.table.add(recipe.predicate, constants.chosen(rows), targets, read)
        return origin_of(nodes, numbers)

    def _new_targets(self, port: int, name: str, nodes: np.ndarray) -> np.ndarray:
        targets = np.array(
            [self._free.pop() for _ in range(min(len(self._free), len(nodes)))], np.int64
        )
        more = len(nodes) - len(targets)
        targets = np.concatenate([targets, self._targets + np.arange(more, dtype=np.int64)])
        self._targets += more
        self._target_port = grown(self._target_port, self._targets)
        self._target_node = grown(self._target_node, self._targets)
        self._target_port[targets], self._target_node[targets] = port, nodes
        known = grown(self._target_of.get(name, np.full(8, -1, np.int64)), int(nodes.max()) + 1, -1)
        known[nodes] = targets
        self._target_of[name] = known
        return targets

    def dismiss(self, port: str, numbers: np.ndarray) -> np.ndarray:
        """Members leave; the nodes that nobody uses any more (their numbers stay taken)."""
        self._stale = True
        gone = self.ports[port].release(numbers)
        targets = self._target_of[port][gone]
        self._target_of[port][gone] = -1
        self.table.remove(targets)
        self._free.extend(targets.tolist())
        if 8 * self.table.count < self._targets:
            self._trim()
        return gone

    def leave(self, port: str, numbers: np.ndarray) -> None:
        self.ports[port].retire(self.dismiss(port, numbers))

    def _trim(self) -> None:
        """Few predicates are left: give the memory of the highest numbers back."""
        free = set(self._free)
        high = self._targets
        while high and high - 1 in free:
            high -= 1
        self._free = [target for target in self._free if target < high]
        self._targets = high
        self._target_port = self._target_port[: max(8, high)].copy()
        self._target_node = self._target_node[: max(8, high)].copy()
        for port, known in self._target_of.items():
            last = int(np.flatnonzero(known >= 0).max(initial=-1)) + 1
            self._target_of[port] = known[: max(8, last)].copy()

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> dict[str, Batch]:
        (batch,) = inputs
        if not self._spec.membered and batch.members is not None:
            batch = Batch(batch.alone())  # whoever made them has one node: they are everybody's
        if len(self.ports) == 1 and self.table.direct:
            at, clauses = self.table.match_clauses(batch.rows, batch.index, batch.members)
            known = self._nodes_of_clauses()
            nodes = clauses if known is None else np.take(known, clauses, mode="clip")
            at = at if batch.index is None else batch.index[at]
            return {port: Batch(batch.rows, at, nodes, near=self._near) for port in self.ports}
        at, targets = self.table.match(batch.rows, batch.index, batch.members)
        nodes = self._target_node[targets]
        if len(self.ports) == 1:
            return {port: Batch(batch.rows, at, nodes) for port in self.ports}
        ports = self._target_port[targets]
        order = np.argsort(ports, kind="stable")
        ends = np.searchsorted(ports[order], np.arange(len(self.ports) + 1))
        found = {}
        for name, number in self._port_numbers.items():
            part = order[ends[number] : ends[number + 1]]
            found[name] = Batch(batch.rows, at[part], nodes[part])
        return found

    def _nodes_of_clauses(self) -> np.ndarray | None:
        """The node of each clause of the only port, found anew when members came or went.

        None if they have the same numbers, as they have as long as nobody has left: looking one
        up in a table of a million costs as much as a comparison.
        """
        if self._stale:
            known = np.take(self._target_node, self.table.targets, mode="clip")
            used = self.table.clause_numbers
            same = np.array_equal(known[:used], np.arange(used, dtype=known.dtype))
            self._direct, self._stale = None if same else known, False
        return self._direct

    def _near(self) -> np.ndarray | None:
        """Where the clause of each node of the only port lies in the index."""
        places = self.table.index.places
        if places is None:
            return None
        known = self._nodes_of_clauses()
        if known is None:
            return places
        count = min(len(places), len(known))
        found = np.zeros(int(known[:count].max(initial=-1)) + 1, np.int64)
        found[known[:count]] = places[:count]
        return found

    def forget_codes(self) -> None:
        self.table.forget_codes()

    @property
    def index_bytes(self) -> int:
        own = (self._target_port, self._target_node, *self._target_of.values())
        nodes = sum(n.nbytes for n in self.ports.values())
        return self.table.nbytes + nodes + sum(array.nbytes for array in own)

    def describe(self) -> dict[str, Any]:
        return self.table.describe()
