"""The graph of a join by equalities: its inputs, an edge for each two that are compared, paths.

A.x = B.x AND A.y = B.y AND B.z = C.z  ->  A -(x, y)- B -(z)- C
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from braid.algebra.detection import Path, entries, paths_of
from braid.algebra.expressions import Expression
from braid.algebra.joins import parts_of, plain_ref
from braid.algebra.relations import Join

#: What of one input is compared at an edge, in the order of WHERE.
Key = tuple[Expression, ...]


@dataclass(frozen=True)
class Graph:
    """Pairs of inputs, the one with the smaller number first; what of each is compared; paths that
    have every edge once."""

    count: int
    edges: tuple[tuple[int, int], ...]
    sides: tuple[tuple[tuple[Expression, Expression], ...], ...]
    paths: tuple[Path, ...]

    def keys(self, number: int) -> Iterator[tuple[int, Key]]:
        """The edges of an input, and what it is asked there."""
        for edge, (first, second) in enumerate(self.edges):
            if number in (first, second):
                side = 0 if number == first else 1
                yield edge, tuple(pair[side] for pair in self.sides[edge])

    def same(self, number: int, edges: Sequence[int]) -> bool:
        """Whether an input is asked the same at these edges."""
        return len({key for edge, key in self.keys(number) if edge in edges}) == 1

    def size(self, number: int, edges: Sequence[int], buckets: Sequence[int]) -> int:
        """How many entries the synopsis of an input by these edges has."""
        return entries(edges, buckets, self.same(number, edges))

    def positions(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The inputs at all positions of all paths, with the edges around each."""
        for path in self.paths:
            for position, number in enumerate(path.inputs):
                yield number, path.around(position)


@lru_cache(maxsize=1024)
def graph_of(join: Join) -> Graph:
    sides: dict[tuple[int, int], list[tuple[Expression, Expression]]] = {}
    for equality in parts_of(join).equalities:
        pair = (equality.left.expression, equality.right.expression)
        sides.setdefault(equality.inputs, []).append(pair)
    edges, count = tuple(sides), len(join.inputs)
    return Graph(count, edges, tuple(map(tuple, sides.values())), paths_of(count, edges))


def equated(join: Join, number: int, name: str) -> dict[int, str]:
    """For each input the attribute that WHERE makes equal to one of an input, directly or through
    others; of several that an input has, the one that is reached first."""
    found = {number: name}
    todo = [(number, name)]
    pairs = []
    for equality in parts_of(join).equalities:
        left, right = (plain_ref(s.expression) for s in (equality.left, equality.right))
        if equality.function == "eq" and left is not None and right is not None:
            first, second = equality.inputs
            pairs.append(((first, left.name), (second, right.name)))
    for reached in todo:
        for pair in pairs:
            if reached in pair:
                other = pair[1] if reached == pair[0] else pair[0]
                if other not in todo:
                    todo.append(other)
                    found.setdefault(*other)
    return found
