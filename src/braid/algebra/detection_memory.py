"""The planned memory of a detection, by which MEMORY chooses the number of buckets.

The plan says what `operators/detect/log.py` holds. A window of a known number of rows is planned full,
with the batches that wait beside it. How many events other windows will have is not known: there
the plan is for one bitmap or matrix for the window and one for a batch, and for a few events; a
detection that comes to hold more than its MEMORY is suspended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braid.algebra.detection import MOST_BUCKETS, code_bits, matrix_bytes
from braid.algebra.join_graphs import Graph

#: Arrays have room for so many events at least.
LEAST_ROOM = 8
#: Batches of at most so many events are followed along chains by bucket.
FEW = 16
#: By key each input has room for so many keys at least, and each key takes so many bytes.
_FEW_KEYS, _KEY = 16, 56


@dataclass(frozen=True)
class Demand:
    """What decides, besides buckets, about what is held. `rows`: how many each window has, where
    that is known; by key it is not, since nobody knows how many keys there will be."""

    rows: tuple[int | None, ...]
    batch: int
    counts: bool
    verifies: bool
    keyed: bool = False


def fitting(graph: Graph, demand: Demand, limit: int) -> int | None:
    """The most buckets with which the plan takes no more than a limit; None if one is too many."""
    if least(graph, demand) > limit:
        return None
    if planned(graph, (1,) * len(graph.edges), demand) > limit:
        # The windows may never be full, or WHERE leaves few of their rows.
        demand = replace(demand, rows=(None,) * graph.count)
    low, high = 1, MOST_BUCKETS
    while low < high:
        middle = (low + high + 1) // 2
        fits = planned(graph, (middle,) * len(graph.edges), demand) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def least(graph: Graph, demand: Demand) -> int:
    """The bytes with which a few events of each input and one bucket for each attribute have room."""
    few = replace(demand, rows=(None,) * graph.count)
    return planned(graph, (1,) * len(graph.edges), few)


def planned(graph: Graph, buckets: Sequence[int], demand: Demand) -> int:
    """Bytes of all that is held of all inputs."""
    synopses = sum(
        _synopsis(graph, number, edges, buckets, demand)
        for number, edges in dict.fromkeys(graph.positions())
    )
    return synopses + sum(_others(graph, number, demand) for number in range(graph.count))


def _events(demand: Demand, number: int) -> int:
    """The window, a batch that has left it in part, one that waits, and as many events as come
    while one of another input waits."""
    rows = demand.rows[number]
    return LEAST_ROOM if rows is None else max(LEAST_ROOM, rows + 3 * demand.batch)


def _batches(demand: Demand, number: int) -> int:
    events = _events(demand, number)
    return events if demand.rows[number] is None else -(-events // demand.batch)


def _synopsis(
    graph: Graph, number: int, edges: tuple[int, ...], buckets: Sequence[int], demand: Demand
) -> int:
    entries, events = graph.size(number, edges, buckets), _events(demand, number)
    sides = 1 if len(edges) == 1 or entries == buckets[edges[0]] else 2
    if demand.keyed:
        return 2 * matrix_bytes(entries, demand.counts) + _roomy(4 * events)
    if demand.counts:
        links = sides if demand.batch <= FEW else 0
        return 2 * matrix_bytes(entries, True) + _roomy(4 * (1 + links) * events)
    code = code_bits([buckets[edge] for edge in edges[:sides]])
    if demand.rows[number] is None:
        bits = 2 * 64 * -(-entries // 64) + events * code
    else:
        bits = _batches(demand, number) * min(entries, demand.batch * code)
    return 8 * LEAST_ROOM + _roomy(8 * -(-bits // 64))


def _others(graph: Graph, number: int, demand: Demand) -> int:
    """Batches and, to verify, times, join attributes and chains of events."""
    events, by_rows = _events(demand, number), demand.rows[number] is not None
    found = (24 if by_rows else 16) * _batches(demand, number)
    keys = {key for _, key in graph.keys(number)}
    columns = {part for key in keys for part in key}
    if demand.keyed:
        found = _FEW_KEYS * _KEY + _roomy(36 * events)
    if demand.verifies:
        words = 2 + by_rows + len(columns)
        found += _roomy((8 * words + 12 * len(keys)) * events) + 64 * len(keys)
    return found


def _roomy(size: int) -> int:
    """Arrays that grow have a quarter of room to spare."""
    return size + -(-size // 4)
