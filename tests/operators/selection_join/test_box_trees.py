"""R-tree and multilevel grid file against all boxes in turn; partial filtering against naive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.jit.runtime import COMPILED
from braid.operators.core.kernels.clauses import HIGHEST, NULL_KEY
from braid.operators.core.values import Words
from braid.operators.selection_join.box_trees import BoxTree, GridFile, RTree
from braid.operators.selection_join.kernels import box_tree

TREES = [RTree, GridFile]


def boxes_of(count: int, dimensions: int, domain: int, seed: int) -> Words:
    """Intervals, a fifth of them of all keys, some empty, some of NULL alone."""
    drawn = np.random.default_rng(seed)
    found = np.empty((count, 2 * dimensions), np.int64)
    found[:, 0::2] = drawn.integers(-domain, domain, (count, dimensions))
    found[:, 1::2] = found[:, 0::2] + drawn.integers(-1, domain, (count, dimensions))
    kind = drawn.integers(0, 20, (count, dimensions))
    found[:, 0::2][kind < 4], found[:, 1::2][kind < 4] = NULL_KEY, HIGHEST
    found[:, 0::2][kind == 4], found[:, 1::2][kind == 4] = NULL_KEY, NULL_KEY
    return found


def check(tree: BoxTree, members: Words, boxes: Words, domain: int, seed: int) -> None:
    """Every search finds what is there, and in steps the same as at once."""
    drawn = np.random.default_rng(seed)
    dimensions = tree.dimensions
    for _ in range(4):
        keys = drawn.integers(-domain, domain, dimensions)
        keys[drawn.random(dimensions) < 0.1] = NULL_KEY
        inside = (boxes[members, 0::2] <= keys) & (keys <= boxes[members, 1::2])
        naive = np.sort(tree.find(keys))
        assert naive.tolist() == members[inside.all(axis=1)].tolist()
        for middle in range(dimensions + 1):
            first = np.sort(tree.find(keys, 0, middle))
            assert first.tolist() == members[inside[:, :middle].all(axis=1)].tolist()
            assert np.sort(tree.find(keys, middle, again=True)).tolist() == naive.tolist()


@pytest.mark.parametrize("kind", TREES)
@settings(max_examples=60 if COMPILED else 5, deadline=None)
@given(
    count=st.sampled_from([0, 1, 64, 127, 129, 700] if COMPILED else [0, 33, 70]),
    dimensions=st.integers(1, 6),
    domain=st.sampled_from([1, 3, 1_000]),
    seed=st.integers(0, 1_000),
)
def test_searches_while_members_come_and_go(
    kind: type[BoxTree], count: int, dimensions: int, domain: int, seed: int
) -> None:
    boxes, drawn = boxes_of(2 * count + 2, dimensions, domain, seed), np.random.default_rng(seed)
    tree, known = kind(dimensions), np.arange(count)
    tree.build(known, boxes[known])
    check(tree, known, boxes, domain, seed)
    more = np.arange(count, 2 * count + 2)
    tree.add(more, boxes[more])
    known = np.arange(2 * count + 2)
    check(tree, known, boxes, domain, seed)
    gone = np.flatnonzero(drawn.random(len(known)) < 0.7)
    tree.remove(gone)
    known = np.setdiff1d(known, gone)
    check(tree, known, boxes, domain, seed)
    back = gone[::2].copy()
    tree.add(back, boxes[back])
    known = np.union1d(known, back)
    check(tree, known, boxes, domain, seed)
    assert tree.count == len(known)


@pytest.mark.skipif(
    not COMPILED,
    reason="fewer have no pages of pages, and 45,000 take minutes without the compiler",
)
@pytest.mark.parametrize("kind", TREES)
def test_pages_of_pages_are_divided(kind: type[BoxTree]) -> None:
    boxes = boxes_of(45_000, 3, 10_000, 5)
    tree, everybody = kind(3), np.arange(45_000)
    tree.build(everybody[:30_000], boxes[:30_000])
    tree.add(everybody[30_000:].copy(), boxes[30_000:])
    assert tree.describe()["pages"] > box_tree.FAN
    check(tree, everybody, boxes, 10_000, 5)


@pytest.mark.parametrize("kind", TREES)
@settings(max_examples=30 if COMPILED else 3, deadline=None)
@given(
    count=st.sampled_from([1, 40, 300] if COMPILED else [1, 40]),
    spread=st.sampled_from([2**20, 2**40, 2**63 - 3]),
    later=st.sampled_from([2**20, 2**63 - 3]),
    seed=st.integers(0, 1_000),
)
def test_ends_too_far_apart_for_codes_of_their_own(
    kind: type[BoxTree], count: int, spread: int, later: int, seed: int
) -> None:
    """Nobody is missed; somebody too much is found only where a tree says so."""
    drawn = np.random.default_rng(seed)
    boxes = np.concatenate([_far_apart(drawn, count, spread), _far_apart(drawn, count, later)])
    tree, everybody = kind(2), np.arange(2 * count)
    tree.build(everybody[:count], boxes[:count])
    assert tree.exact == (spread == 2**20)
    assert not tree.worn
    tree.add(everybody[count:].copy(), boxes[count:])
    if later == 2**63 - 3:
        assert not tree.exact
        assert tree.worn or spread == later
    for keys in np.ascontiguousarray(boxes[drawn.integers(0, 2 * count, 8)][:, [0, 3]]):
        inside = ((boxes[:, 0::2] <= keys) & (keys <= boxes[:, 1::2])).all(axis=1)
        found = tree.find(keys)
        assert np.isin(everybody[inside], found).all()
        if tree.exact:
            assert len(found) == np.count_nonzero(inside)


def _far_apart(drawn: np.random.Generator, count: int, spread: int) -> Words:
    """Small boxes anywhere from one end to the other, of which the first two are at both."""
    low = drawn.integers(-spread, spread - 1, (count, 2))
    low[:1], low[1:2] = -spread, spread - 2
    boxes = np.stack([low, low + drawn.integers(0, 2, (count, 2))], axis=2).reshape(count, 4)
    boxes[drawn.random(boxes.shape) < 0.1] = HIGHEST
    boxes[0] = -spread, spread - 1, -spread, spread - 1
    return boxes


@pytest.mark.parametrize("kind", TREES)
def test_many_that_are_alike(kind: type[BoxTree]) -> None:
    """Points that no edge parts share a page and further ones of it, also when others come."""
    boxes = np.tile(np.array([[1, 5, 2, 6]], np.int64), (300, 1))
    boxes[200:] = boxes_of(100, 2, 9, 1)
    tree = kind(2)
    everybody = np.arange(300)
    tree.build(everybody[:150], boxes[:150])
    tree.add(everybody[200:].copy(), boxes[200:])
    tree.add(everybody[150:200].copy(), boxes[150:200])
    check(tree, everybody, boxes, 9, 1)
    tree.remove(everybody[:140].copy())
    check(tree, everybody[140:], boxes, 9, 1)


@pytest.mark.parametrize("kind", TREES)
def test_a_tree_that_most_have_left_says_so(kind: type[BoxTree]) -> None:
    boxes = boxes_of(500, 2, 50, 3)
    tree = kind(2)
    tree.build(np.arange(500), boxes)
    assert not tree.worn
    tree.remove(np.arange(400))
    assert tree.worn
    tree.build(np.arange(400, 500), boxes[400:])
    assert not tree.worn
    assert tree.count == 100


@pytest.mark.parametrize("kind", TREES)
def test_marks_are_counted_and_pages_too(kind: type[BoxTree]) -> None:
    boxes = boxes_of(500, 2, 50, 3)
    tree = kind(2)
    tree.build(np.arange(500), boxes)
    for number in range(1, 4):
        tree.find(np.array([1, 2]))
        assert tree.tree.mark == number
    described = tree.describe()
    assert described["index"] == kind.name
    assert 0 < described["pages_looked_at"] <= 3 * described["pages"]
    assert described["bytes"] == tree.nbytes
