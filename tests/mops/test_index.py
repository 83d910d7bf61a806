"""The index of a selection, to which clauses come one by one and are put in together."""

from __future__ import annotations

import numpy as np
import pytest

from braid.kernels.clauses import IN, INTERVAL, NOT_EQUAL, NOT_IN, Clauses
from braid.mops.index import AdaptiveIndex, Form
from braid.mops.sequential import SequentialIndex, joined

COLUMNS = 3


def clauses(random: np.random.Generator, count: int) -> Clauses:
    """Conjunctions of up to three tests, some of them with lists."""
    lengths = random.integers(0, 4, count)
    start = np.concatenate([[0], np.cumsum(lengths)])
    atoms = int(start[-1])
    kind = random.choice([INTERVAL, INTERVAL, NOT_EQUAL, IN, NOT_IN], atoms)
    lo = random.integers(0, 8, atoms)
    hi = lo + random.integers(0, 4, atoms)
    sets: list[int] = []
    for atom in np.flatnonzero((kind == IN) | (kind == NOT_IN)):
        values = np.unique(random.integers(0, 10, 3)).tolist()
        lo[atom], hi[atom] = len(sets), len(sets) + len(values)
        sets += values
    column = random.integers(0, COLUMNS, atoms)
    return Clauses(*(np.asarray(a, np.int64) for a in (start, column, kind, lo, hi, sets)))


def pairs(index: AdaptiveIndex | SequentialIndex, keys: np.ndarray) -> set[tuple[int, int]]:
    found = index.match(keys)
    return set(zip(found.rows.tolist(), found.clauses.tolist(), strict=True))


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("seed", range(4))
def test_clauses_come_and_go_between_rows(form: Form, seed: int) -> None:
    random = np.random.default_rng(seed)
    index, plain = AdaptiveIndex(form), SequentialIndex()
    index.widen(COLUMNS)
    used: list[int] = []
    for turn in range(12):
        for _ in range(int(random.integers(0, 4))):
            made = clauses(random, int(random.integers(1, 9)))
            ids = np.arange(made.total, dtype=np.int32) + max(used, default=-1) + 1
            used += ids.tolist()
            index.add(made, ids)
            plain.add(made, ids)
        if used and turn % 3 == 2:
            gone = random.choice(used, min(5, len(used)), replace=False).astype(np.int32)
            used = [u for u in used if u not in gone]
            index.remove(gone)
            plain.remove(gone)
        keys = random.integers(0, 12, (20, COLUMNS))
        if used and turn % 2:
            assert pairs(index, keys) == pairs(plain, keys)
    assert index.describe()["clauses"] == len(used)


def test_joined_clauses_keep_their_lists() -> None:
    random = np.random.default_rng(7)
    parts = [clauses(random, n) for n in (3, 1, 5)]
    whole = joined(parts)
    keys = random.integers(0, 12, (50, COLUMNS))
    together, one_by_one = SequentialIndex(), set()
    together.add(whole, np.arange(whole.total, dtype=np.int32))
    before = 0
    for part in parts:
        alone = SequentialIndex()
        alone.add(part, np.arange(before, before + part.total, dtype=np.int32))
        one_by_one |= pairs(alone, keys)
        before += part.total
    assert pairs(together, keys) == one_by_one
    assert joined([]).total == 0
