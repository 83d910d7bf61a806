"""Join graphs of queries over documents, their reduction to a minor, and the templates they give.

A join graph has a tree for each of the two blocks and an edge for each value join. It is reduced by
taking away, first, leaves that no join uses (again and again), then everything above the least
common ancestor of the leaves, then inner nodes with one child: what is left decides how values are
joined, and queries that are alike in it are evaluated by one conjunctive query.

>>> from braid.operators.documents.join_graphs import JoinGraph
>>> graph = JoinGraph(((-1, 0, 0), (-1, 0)), ((1, 1), (2, 1)))
>>> graph.reduced()
JoinGraph(parents=((-1, 0, 0), (-1,)), joins=((1, 0), (2, 0)))
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, permutations

from braid.algebra.documents import Documents
from braid.operators.documents.stages import View

#: Of so many joins, every order is tried to find the one that alike graphs have in common.
_MOST = 6


@dataclass(frozen=True)
class JoinGraph:
    """`parents`: of each side, the parent of each node (-1: none). `joins`: pairs of nodes."""

    parents: tuple[tuple[int, ...], tuple[int, ...]]
    joins: tuple[tuple[int, int], ...]

    def reduced(self) -> JoinGraph:
        kept = [self._kept(side) for side in (0, 1)]
        parents = tuple(self._parents(side, kept[side]) for side in (0, 1))
        joins = tuple((kept[0].index(a), kept[1].index(b)) for a, b in self.joins)
        return JoinGraph((parents[0], parents[1]), joins)

    def path(self, side: int, node: int) -> tuple[int, ...]:
        """From the root of a side down to a node."""
        found: list[int] = []
        while node >= 0:
            found.append(node)
            node = self.parents[side][node]
        return tuple(reversed(found))

    def _kept(self, side: int) -> list[int]:
        """Nodes that are joined, and those where the ways to such nodes part."""
        joined = {join[side] for join in self.joins}
        below: dict[int, set[int]] = {}
        for node in joined:
            path = self.path(side, node)
            for above, child in pairwise(path):
                below.setdefault(above, set()).add(child)
        return sorted(joined | {n for n, children in below.items() if len(children) > 1})

    def _parents(self, side: int, kept: list[int]) -> tuple[int, ...]:
        places = {node: place for place, node in enumerate(kept)}
        found = []
        for node in kept:
            above = [n for n in self.path(side, node)[:-1] if n in places]
            found.append(places[above[-1]] if above else -1)
        return tuple(found)

    def template(self) -> tuple[object, ...]:
        """What all graphs of this form have in common: equal for those that are isomorphic.

        The sides are told apart; a node is known by the joins below it.
        """
        orders = permutations(range(len(self.joins)))
        if len(self.joins) > _MOST:
            return self._encoded(tuple(range(len(self.joins))))
        return min(self._encoded(order) for order in orders)

    def _encoded(self, order: tuple[int, ...]) -> tuple[object, ...]:
        sides = []
        for side in (0, 1):
            below: dict[int, list[int]] = {}
            own: dict[int, list[int]] = {}
            for place, number in enumerate(order):
                node = self.joins[number][side]
                own.setdefault(node, []).append(place)
                for above in self.path(side, node):
                    below.setdefault(above, []).append(place)
            sides.append(tuple(sorted((tuple(b), tuple(own.get(n, ()))) for n, b in below.items())))
        return (len(order), *sides)


def join_graph(view: View) -> JoinGraph:
    """The join graph of a join of two sides."""
    first, second = (tuple(n.parent for n in side.block.nodes) for side in view.sides)
    return JoinGraph((first, second), tuple((j.first, j.second) for j in view.joins))


def names_of(query: Documents) -> tuple[tuple[str, ...], ...]:
    """What the nodes of blocks are called: by their variables, else by their places."""
    letters = "lr" if len(query.blocks) <= 2 else "abcdefghijklmnopqrstuvwxyz"
    return tuple(
        tuple(
            n.variable or f"{letters[number % len(letters)]}{place}"
            for place, n in enumerate(block.nodes)
        )
        for number, block in enumerate(query.blocks)
    )


def conjunctive_query(graph: JoinGraph) -> str:
    """CQ_T of a reduced graph, in Datalog over R_L, R_R and R_T."""
    names = _node_numbers(graph)
    body = []
    edges = [_edges(graph, side, names) for side in (0, 1)]
    for number, (left, right) in enumerate(graph.joins):
        value = f"s{number + 1}"
        body.append(_atom("R_L", "docid, ", graph, 0, left, names[0], value))
        body.append(_atom("R_R", "", graph, 1, right, names[1], value))
    body += [f"R_bin(docid, {e})" for e in edges[0]] + [f"R_binW({e})" for e in edges[1]]
    numbers = [*names[0].values(), *names[1].values()]
    body.append(f"R_T(qid, {', '.join(f'var{n}' for n in numbers)}, wl)")
    head = f"R_out(qid, docid, {', '.join(f'node{n}' for n in numbers)}, wl)"
    return f"{head} :-\n  " + ",\n  ".join(dict.fromkeys(body))


def _node_numbers(graph: JoinGraph) -> tuple[dict[int, int], dict[int, int]]:
    first = {node: node + 1 for node in range(len(graph.parents[0]))}
    second = {node: len(first) + node + 1 for node in range(len(graph.parents[1]))}
    return first, second


def _atom(
    relation: str, key: str, graph: JoinGraph, side: int, leaf: int, names: dict[int, int], s: str
) -> str:
    """A leaf with the node above it; a leaf alone is tied to its variable by itself."""
    above = graph.parents[side][leaf]
    top = names[above] if above >= 0 else names[leaf]
    own = names[leaf]
    return f"{relation}({key}var{top}, var{own}, node{top}, node{own}, {s})"


def _edges(graph: JoinGraph, side: int, names: tuple[dict[int, int], dict[int, int]]) -> list[str]:
    """The structural edges that lead to inner nodes: those to leaves come with their values."""
    joined = {join[side] for join in graph.joins}
    own = names[side]
    return [
        f"var{own[above]}, var{own[node]}, node{own[above]}, node{own[node]}"
        for node, above in enumerate(graph.parents[side])
        if above >= 0 and node not in joined
    ]
