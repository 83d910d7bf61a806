"""Join graphs: the number of templates of table 6.3, reduction, conjunctive queries."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product

import pytest

from braid.operators.documents.join_graphs import JoinGraph, conjunctive_query

#: A tree by its leaves: a number, or the subtrees of an inner node.
Tree = int | tuple["Tree", ...]


def partitions(leaves: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """All ways to divide leaves into groups."""
    if not leaves:
        return [[]]
    first, *rest = leaves
    found = []
    for size in range(len(rest) + 1):
        for others in combinations(rest, size):
            left = tuple(n for n in rest if n not in others)
            found += [[(first, *others), *more] for more in partitions(left)]
    return found


@lru_cache
def trees(leaves: tuple[int, ...], depth: int) -> tuple[Tree, ...]:
    """All trees over these leaves with at most so many edges from root to leaf, inner nodes having
    two children or more."""
    if len(leaves) == 1:
        return (leaves[0],)
    if depth == 0:
        return ()
    found: list[Tree] = []
    for groups in partitions(leaves):
        if len(groups) > 1:
            found += product(*(trees(group, depth - 1) for group in groups))
    return tuple(found)


def parents_of(tree: Tree, leaves: int) -> tuple[int, ...]:
    """Leaves first, under their own numbers, then inner nodes."""
    parents = [-1] * leaves

    def walk(node: Tree, above: int) -> None:
        if isinstance(node, int):
            parents[node] = above
            return
        parents.append(above)
        own = len(parents) - 1
        for child in node:
            walk(child, own)

    walk(tree, -1)
    return tuple(parents)


def templates(joins: int, depth: int) -> int:
    """How many templates there are for so many joins over trees of at most this depth."""
    found = set()
    for left, right in product(range(1, joins + 1), repeat=2):
        pairs = list(product(range(left), range(right)))
        for chosen in combinations(pairs, joins):
            if {a for a, _ in chosen} != set(range(left)):
                continue
            if {b for _, b in chosen} != set(range(right)):
                continue
            for first in trees(tuple(range(left)), depth):
                for second in trees(tuple(range(right)), depth):
                    parents = (parents_of(first, left), parents_of(second, right))
                    found.add(JoinGraph(parents, chosen).template())
    return len(found)


@pytest.mark.parametrize(
    ("depth", "counts"), [(1, (1, 3, 6, 16)), (2, (1, 3, 16, 146)), (9, (1, 3, 16, 215))]
)
def test_table_6_3(depth: int, counts: tuple[int, ...]) -> None:
    assert tuple(templates(joins, depth) for joins in range(1, len(counts) + 1)) == counts


def test_reduction_takes_away_what_decides_nothing() -> None:
    """A leaf without a join, what is above all leaves, and inner nodes with one child."""
    #        0            0
    #        1            1
    #      2   3        2   3      joined: left 4 = right 2, left 5 = right 3
    #     4 6   5
    graph = JoinGraph(((-1, 0, 1, 1, 2, 3, 2), (-1, 0, 1, 1)), ((4, 2), (5, 3)))
    assert graph.reduced() == JoinGraph(((-1, 0, 0), (-1, 0, 0)), ((1, 1), (2, 2)))


def test_alike_graphs_have_one_template_whatever_their_order() -> None:
    first = JoinGraph(((-1, 0, 0), (-1, 0, 0)), ((1, 1), (2, 2)))
    second = JoinGraph(((-1, 0, 0), (-1, 0, 0)), ((2, 1), (1, 2)))
    shared = JoinGraph(((-1, 0, 0), (-1,)), ((1, 0), (2, 0)))
    assert first.template() == second.template()
    assert first.template() != shared.template()


def test_the_conjunctive_query_of_figure_6_7() -> None:
    """As in 6.5, over R_L, R_R and R_T."""
    graph = JoinGraph(((-1, 0, 0), (-1, 0, 0)), ((1, 1), (2, 2)))
    assert conjunctive_query(graph) == (
        "R_out(qid, docid, node1, node2, node3, node4, node5, node6, wl) :-\n"
        "  R_L(docid, var1, var2, node1, node2, s1),\n"
        "  R_R(var4, var5, node4, node5, s1),\n"
        "  R_L(docid, var1, var3, node1, node3, s2),\n"
        "  R_R(var4, var6, node4, node6, s2),\n"
        "  R_T(qid, var1, var2, var3, var4, var5, var6, wl)"
    )
