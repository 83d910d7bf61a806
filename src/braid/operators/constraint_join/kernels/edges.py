"""Edges of the join graph: the keys that two inputs have in common, and the rows that share one."""

from __future__ import annotations

from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.records import Edge, Frame, Store
from braid.operators.constraint_join.kernels.store import find, hash_key


@kernel()
def edges_of(frame: Frame, input_: int) -> Edge:
    """The edges of an input; it has `edge_count` of them."""
    return frame.edges[input_ * frame.inputs]


@kernel()
def opposite(frame: Frame, edge: Edge) -> Edge:
    """An edge as the other input sees it."""
    return edges_of(frame, edge.other)[edge.back]


@kernel()
def edge_hash(frame: Frame, edge: Edge, store: Store, row: Words) -> int:
    """The hash of the key of a row that the other input shares."""
    return hash_key(row, store.base, frame.indexes[edge.own])


@kernel()
def find_partner(frame: Frame, edge: Edge, hash_: int) -> int:
    """The newest row of the other input that has a key, or -1."""
    return find(frame.indexes[edge.index], hash_)
