"""Builds attribute selection constructs: the regions and bitmaps of all that clauses say of a column."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.operators.core.kernels.clauses import (
    HIGHEST,
    IN,
    INTERVAL,
    LOWEST,
    NOT_EQUAL,
    NOT_IN,
    NULL_KEY,
    PATTERN,
    Clauses,
)
from braid.operators.select.kernels.asc import (
    ONE_PLACE,
    Construct,
    Constructs,
    failing_regions,
    fill_table,
    find_candidates,
    set_bits,
    sweep_regions,
)

Array = np.ndarray[Any, np.dtype[np.int64]]


def build(clauses: Clauses, columns: int) -> Constructs:
    """The constructs of all key columns that clauses restrict."""
    used = columns_used(clauses, columns)
    constants = [constants_of(clauses, column) for column in used]
    words, regions = words_for(clauses.total), [2 * len(c) + 2 for c in constants]
    tables = [table_of(c, words) for c in constants]
    places = [places for places, _ in tables]
    owners, exact = owners_of(clauses), clauses.kind != PATTERN
    restricted, free = np.zeros(words, np.int64), np.zeros(words, np.int64)
    set_bits(restricted, owners[exact])
    set_bits(free, np.setdiff1d(np.arange(clauses.total), owners[exact]).astype(np.int64))
    shape = np.zeros((len(used), Construct.stride // 8), np.int64)
    for place, column in enumerate(used):
        mine = constants[place]
        # Without a constant every key is above them all.
        ends = (mine[0], mine[-1]) if len(mine) else (LOWEST, NULL_KEY)
        at = (sum(len(c) for c in constants[:place]), len(mine), sum(regions[:place]))
        shape[place] = (column, *at, *ends, sum(places[:place]), tables[place][1])
    asc = Constructs(
        shape,
        np.concatenate([*constants, np.empty(0, np.int64)]),
        np.empty(sum(places), np.int64),
        np.empty((sum(regions), words), np.int64),
        np.zeros((len(used), words), np.int64),
        np.zeros((sum(regions), words_for(len(used))), np.int64),
        restricted,
        free,
    )
    for place, column in enumerate(used):
        mine = np.flatnonzero(exact & (clauses.column == column))
        set_bits(asc.usage[place], owners[mine])
        own = Construct.at(shape)[place]
        _fill_results(clauses, owners, mine, constants[place], asc, own.region)
        if places[place]:
            part = asc.table[own.table : own.table + places[place]]
            fill_table(constants[place], own.low, own.shift, part)
    find_candidates(asc)
    return asc


def _fill_results(
    clauses: Clauses, owners: Array, mine: Array, constants: Array, asc: Constructs, first: int
) -> None:
    """The query-result bitmaps of one construct."""
    fields = (owners, clauses.kind, clauses.lo, clauses.hi)
    atoms = np.stack([field[mine] for field in fields], axis=1)
    members = np.isin(atoms[:, 1], (IN, NOT_IN))
    most = 2 * len(atoms) + int((atoms[members, 3] - atoms[members, 2]).sum())
    ranges = np.empty((most, 3), np.int64)
    ranges = ranges[: failing_regions(atoms, clauses.sets, constants, ranges)]
    opening = np.ascontiguousarray(ranges[np.argsort(ranges[:, 0], kind="stable")][:, [0, 2]])
    closing = np.ascontiguousarray(ranges[np.argsort(ranges[:, 1], kind="stable")][:, 1:])
    failing = np.zeros(clauses.total, np.int64)
    results = asc.results[first : first + 2 * len(constants) + 2]
    sweep_regions(opening, closing, failing, asc.restricted.copy(), results)


def owners_of(clauses: Clauses) -> Array:
    """The clause of each atom."""
    return np.repeat(np.arange(clauses.total, dtype=np.int64), np.diff(clauses.start))


def columns_used(clauses: Clauses, columns: int) -> list[int]:
    used = [int(column) for column in np.unique(clauses.column[clauses.kind != PATTERN])]
    assert not used or (used[0] >= 0 and used[-1] < columns)
    return used


def constants_of(clauses: Clauses, column: int) -> Array:
    """The distinct constants that a column is compared with, sorted."""
    mine = clauses.column == column
    kind, lo, hi = clauses.kind[mine], clauses.lo[mine], clauses.hi[mine]
    interval, sets = kind == INTERVAL, np.isin(kind, (IN, NOT_IN))
    sizes = np.maximum(hi[sets] - lo[sets], 0)
    members = np.repeat(lo[sets] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    starts, ends = lo[interval], hi[interval]
    found = np.concatenate(
        [
            starts[starts > LOWEST],
            ends[ends < HIGHEST],
            lo[kind == NOT_EQUAL],
            clauses.sets[members],
        ]
    )
    return np.unique(found[found != NULL_KEY])


def table_of(constants: Array, words: int) -> tuple[int, int]:
    """How many places the table of constants has, and by how much keys are shifted.

    Each key has a place of its own if that takes no more space than the bitmaps.
    """
    if len(constants) == 0:
        return 0, 0
    last = int(constants[-1]) - int(constants[0])
    if last <= 1024 + len(constants) * words:
        return last + 2, 0
    if last >= 1 << 63:  # all constants are searched
        return 2, int(ONE_PLACE)
    shift = max(0, last.bit_length() - (4 * len(constants)).bit_length())
    return (last >> shift) + 2, shift


def words_for(bits: int) -> int:
    return (bits + 63) // 64


def static_order(asc: Constructs) -> Array:
    """Before anything is known of the data: by the share of ones in the query-result bitmaps."""
    counts = np.bitwise_count(asc.results).sum(1)
    own = [Construct.at(asc.shape)[place] for place in range(len(asc.shape))]
    shares = [counts[c.region : c.region + 2 * c.count + 2].mean() for c in own]
    return np.argsort(np.array(shares), kind="stable").astype(np.int64)
