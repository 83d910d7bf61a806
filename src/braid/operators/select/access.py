"""The access-predicate form of the clause index, for clauses by the million.

Every clause is found by one of its atoms, or by several that compare for equality (see
`kernels.access` for how, and `access_plan` for which), and only then verified. The cost of a row
grows with the candidates that its keys lead to, not with the clauses there are.

The law: `match` gives exactly the pairs of rows and ids whose clause is true for the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braid.jit import memory, records
from braid.operators.core.kernels.clauses import PATTERN, Clauses
from braid.operators.select.access_plan import CANDIDATE, PROBE, Plan
from braid.operators.select.clause_index import Keys, Numbers, Pairs
from braid.operators.select.kernels.access import (
    COUNT_MASK,
    Counts,
    Store,
    refill_slots,
    remove_clauses,
)
from braid.operators.select.kernels.access_build import Access, choose
from braid.operators.select.kernels.access_fill import (
    OVERHEAD,
    Entries,
    active_heights,
    claim_ids,
    count_atoms,
    extract,
    fill_entries,
    insert_entries,
    own_sets,
)
from braid.operators.select.kernels.access_match import (
    Memo,
    Probing,
    match_rows,
    most_extra_probes,
    split_pairs,
)
from braid.operators.select.kernels.access_runs import find_runs
from braid.operators.select.string_patterns import PatternSet

#: Rows that are enough to learn from, and what is kept of more.
ENOUGH, KEPT = 1024, 2048
#: Until there are twice as many clauses nothing is planned: any form is fast enough.
FEW = 32
#: A new plan must be so much better than the one at work to be worth the move.
BETTER = 0.85
_WORD = np.int64


class AccessIndex:
    """Clauses under ids of the owner's choice: small numbers, as arrays are as long as the largest."""

    def __init__(self, columns: int, patterns: Mapping[int, PatternSet] | None = None) -> None:
        self.columns = columns
        self._patterns = patterns if patterns is not None else {}
        self._sample: Keys = np.zeros((columns, 0), _WORD)
        self._unlearned: list[Keys] = []
        self._learned = False
        self.clear()

    def clear(self) -> None:
        """Forget all clauses; what was learned about keys stays."""
        self._position: Keys = np.zeros(0, _WORD)
        self._sets: Keys = np.zeros(1, _WORD)
        self._sets_used = 0
        self._start_over(self._make_plan(_nothing()))

    def _start_over(self, plan: Plan) -> None:
        """An empty store under a plan."""
        self._plan = plan
        self._planned = FEW
        self._levels = np.zeros(self.columns, _WORD)
        self._pool: Keys = np.zeros(256, _WORD)
        self._slots: Keys = np.zeros(16, _WORD)
        self._bits: Keys = np.zeros(2, _WORD)
        self._memory: Keys = np.zeros(Counts.stride // 8, _WORD)
        self._counts = Counts.at(self._memory)
        self._counts.used = 1  # offset 0 is none
        self._probing: Probing | None = None

    def _make_plan(self, clauses: Clauses) -> Plan:
        texts = {column: patterns.likely for column, patterns in self._patterns.items()}
        return Plan(self.columns, self._sample, texts, clauses)

    def _store(self) -> Store:
        return Store(self._pool, self._slots, self._bits, self._position, self._sets, self._memory)

    def __len__(self) -> int:
        return self._counts.live

    # Clauses come and go

    def add(self, clauses: Clauses, ids: Numbers) -> None:
        """Add clauses under ids that are not in use."""
        if clauses.total == 0:
            return
        clauses = Clauses(*(np.ascontiguousarray(array, _WORD) for array in clauses))
        self._check(clauses, ids)
        top = int(ids.max()) + 1
        if top > len(self._position):
            self._position = memory.resized_array(
                self._position, max(top, len(self._position) * 5 // 4)
            )
        bad = claim_ids(self._position, ids)
        if bad >= 0:
            raise ValueError(f"clause {ids[bad]} is there already")
        self._sets, self._sets_used, clauses = _with_own_sets(self._sets, self._sets_used, clauses)
        if len(self) + clauses.total > 2 * self._planned:
            if len(self):
                old, old_ids = self._taken_out()
                clauses, ids = _joined(old, clauses), np.concatenate([old_ids, ids])
            self._renew(clauses, ids, self._make_plan(clauses))
        else:
            self._insert(clauses, ids)

    def _check(self, clauses: Clauses, ids: Numbers) -> None:
        if len(ids) != clauses.total:
            raise ValueError("as many ids as clauses")
        if ids.min() < 0:
            raise ValueError("ids are not negative")
        if len(clauses.column) == 0:
            return
        if clauses.column.max() >= self.columns or clauses.column.min() < 0:
            raise ValueError(f"the index has {self.columns} columns")
        if np.diff(clauses.start).max() > COUNT_MASK:
            raise ValueError(f"a clause has at most {COUNT_MASK} atoms")
        patterns = clauses.kind == PATTERN
        if patterns.any():
            for column in np.unique(clauses.column[patterns]).tolist():
                if column not in self._patterns:
                    raise ValueError(f"column {column} has no patterns")

    def _renew(self, clauses: Clauses, ids: Numbers, plan: Plan) -> None:
        """Put these clauses, and no others, into a new store."""
        self._start_over(plan)
        self._sets, self._sets_used, clauses = _with_own_sets(np.zeros(1, _WORD), 0, clauses)
        self._position[:] = 0
        self._insert(clauses, ids)
        self._pool = memory.resized_array(self._pool, self._counts.used * 17 // 16 + 64)
        self._planned = max(FEW, len(self))

    def _insert(self, clauses: Clauses, ids: Numbers) -> None:
        plan, n = self._plan, clauses.total
        known = len(plan.widths)
        shapes = plan.shapes_of(clauses)
        access = Access(*(np.empty(n, _WORD) for _ in Access._fields))
        choose(clauses, shapes, plan.decisions, plan.widths, plan.beliefs, access)
        entries = Entries(*(np.empty(int(access.copies.sum()), _WORD) for _ in Entries._fields))
        fill_entries(clauses, access, plan.classes, plan.widths, plan.beliefs.bounds, entries)
        # Records of one form are neighbours: what comes next in a bucket can then be guessed.
        order = np.lexsort((access.words[entries.clause], entries.hash))
        classes, widths = plan.classes, plan.widths
        runs = find_runs(clauses, access, entries.hash, entries.clause, order, classes, widths)
        self._make_room(entries, int((access.copies * access.words).sum()), order)
        done = 0
        while done < len(order):
            done = insert_entries(
                self._store(), clauses, ids, access, entries, order, classes, widths, runs, done
            )
            if done < len(order):  # only if different buckets have equal hashes
                self._more_slots(2 * len(self._slots))
        self._counts.live += clauses.total
        changed = active_heights(entries.code, self._levels)
        if changed or known != len(plan.widths):
            self._probing = None

    def _make_room(self, entries: Entries, words: int, order: Keys) -> None:
        count = len(order)
        need = self._counts.used + count * OVERHEAD + 2 * words
        if need > len(self._pool):
            pool = np.empty(max(need, len(self._pool) * 5 // 4), _WORD)
            pool[: self._counts.used] = self._pool[: self._counts.used]
            self._pool = pool
        hashes = entries.hash[order]
        new = 1 + int(np.count_nonzero(hashes[1:] != hashes[:-1]))
        buckets = self._counts.buckets + new
        if 2 * buckets > len(self._slots):
            self._more_slots(1 << (2 * buckets - 1).bit_length())

    def _more_slots(self, size: int) -> None:
        old = self._slots
        self._slots, self._bits = np.zeros(size, _WORD), np.zeros(max(2, size // 16), _WORD)
        refill_slots(old, self._store(), self._plan.classes)

    def remove(self, ids: Numbers) -> None:
        """Remove clauses; their memory is given back when more than half of all are."""
        bad = remove_clauses(self._store(), ids)
        if bad >= 0:
            raise KeyError(f"clause {ids[bad]} is not there")
        if len(self) == 0:
            self.clear()
        elif self._counts.garbage > max(FEW, self._counts.records):
            clauses, kept = self._taken_out()
            self._position = self._position[: int(kept.max()) + 1].copy()
            self._renew(clauses, kept, self._make_plan(clauses))

    def _taken_out(self) -> tuple[Clauses, Numbers]:
        """All clauses, with lists in our own sets."""
        n, atoms = count_atoms(self._store())
        column, kind, lo, hi = (np.empty(atoms, _WORD) for _ in range(4))
        clauses = Clauses(np.empty(n + 1, _WORD), column, kind, lo, hi, self._sets)
        ids = np.empty(n, np.int32)
        extract(self._store(), self._plan.classes, clauses, ids)
        return clauses, ids

    def contents(self) -> tuple[Clauses, Numbers]:
        """All clauses and their ids."""
        return self._taken_out()

    def widen(self, columns: int) -> None:
        """More columns, to the right of those there are."""
        if columns <= self.columns:
            return
        more = columns - self.columns
        self.columns = columns
        self._sample = np.pad(self._sample, ((0, more), (0, 0)))
        self._levels = np.pad(self._levels, (0, more))
        self._unlearned = []
        self._plan.widen(columns)
        self._probing = None

    @property
    def places(self) -> Keys:
        """Where the record of each clause is: those of one bucket lie together."""
        return self._position

    # Rows are matched, and learned from

    def match(self, keys: Keys) -> Pairs:
        """All pairs of a row of keys and the id of a clause that holds for it."""
        if keys.shape[1] != self.columns:
            raise ValueError(f"the index has {self.columns} columns")
        keys = np.ascontiguousarray(keys, _WORD)
        if len(self) == 0 or len(keys) == 0:
            return Pairs(np.empty(0, np.int32), np.empty(0, np.int32))
        if not self._learned:
            self._look_at(keys)
        probing = self._probes()
        most = most_extra_probes(keys, probing)
        if most < 0:
            raise ValueError("a text is not known to its patterns: refresh them before matching")
        found = match_rows(keys, probing, self._store(), most)
        rows, clauses = np.empty(found.count, np.int32), np.empty(found.count, np.int32)
        split_pairs(records.Words(found.words), rows, clauses)
        memory.free(found.words)
        return Pairs(rows, clauses)

    def _probes(self) -> Probing:
        if self._probing is None or self._patterns:
            memos = np.zeros((self.columns, Memo.stride // 8), _WORD)
            for column, patterns in self._patterns.items():
                memos[column] = patterns.memo()
            self._probing = Probing(
                self._plan.classes,
                self._plan.widths,
                self._plan.hashed,
                np.flatnonzero(self._levels),
                self._plan.beliefs.bounds,
                self._levels,
                np.array(sorted(self._patterns), _WORD),
                memos,
            )
        return self._probing

    def _look_at(self, keys: Keys) -> None:
        """Remember rows until there are enough to learn from."""
        missing = ENOUGH - sum(len(rows) for rows in self._unlearned)
        if missing > 0:
            self._unlearned.append(_spread(keys, missing).copy())
        if len(keys) >= missing and len(self) > FEW:
            self.learn(np.concatenate(self._unlearned))

    def learn(self, keys: Keys) -> None:
        """Believe that keys are like these, and move clauses if that makes rows much cheaper."""
        self._unlearned, self._learned = [], True
        self._sample = np.sort(np.ascontiguousarray(_spread(keys, KEPT).T), axis=1)
        if len(self) == 0:
            self.clear()
            return
        clauses, ids = self._taken_out()
        plan = self._make_plan(clauses)
        if not self._counts.rows or self._expected(plan, clauses) < BETTER * self._measured():
            self._renew(clauses, ids, plan)
        counts = self._counts
        counts.probes, counts.candidates, counts.rows = 0, 0, 0

    def _measured(self) -> float:
        """What a row has cost."""
        probes, candidates, rows = self._counts.probes, self._counts.candidates, self._counts.rows
        return float(probes * PROBE + candidates * CANDIDATE) / max(1, int(rows))

    def _expected(self, plan: Plan, clauses: Clauses) -> float:
        """What a row would cost under another plan."""
        access = Access(*(np.empty(clauses.total, _WORD) for _ in Access._fields))
        shapes = plan.shapes_of(clauses)
        candidates = choose(clauses, shapes, plan.decisions, plan.widths, plan.beliefs, access)
        heights = int(np.log2(plan.beliefs.bounds.shape[1] + 1)) + 1
        probes = len(plan.widths) + heights * int(plan.decisions.trees.sum())
        return probes * PROBE + candidates * CANDIDATE

    # What there is

    @property
    def nbytes(self) -> int:
        held = (*self._store(), self._sample, self._levels, *self._unlearned)
        return sum(array.nbytes for array in held) + self._plan.nbytes

    def describe(self) -> dict[str, Any]:
        counts = self._counts
        rows = max(1, counts.rows)
        return {
            "form": "access predicates",
            "clauses": len(self),
            "records": counts.records,
            "buckets": counts.buckets,
            "classes": [
                [int(column) for column in columns[:width]]
                for columns, width in zip(self._plan.classes, self._plan.widths, strict=True)
            ],
            "trees": np.flatnonzero(self._levels).tolist(),
            "patterns": sorted(self._patterns),
            "probes_per_row": counts.probes / rows,
            "candidates_per_row": counts.candidates / rows,
            "learned": self._learned,
            "bytes": self.nbytes,
        }


def _nothing() -> Clauses:
    none = np.empty(0, _WORD)
    return Clauses(np.zeros(1, _WORD), none, none, none, none, none)


def _spread(keys: Keys, count: int) -> Keys:
    """So many rows, evenly from all."""
    if len(keys) <= count:
        return keys
    return keys[(np.arange(count) * len(keys)) // count]


def _with_own_sets(sets: Keys, used: int, clauses: Clauses) -> tuple[Keys, int, Clauses]:
    """Append the lists of clauses to our own; the clauses then refer to those."""
    end = own_sets(clauses, used, np.empty(0, _WORD))
    if end > len(sets):
        sets = np.concatenate([sets, np.zeros(max(end, 2 * len(sets)) - len(sets), _WORD)])
    if end > used:
        clauses = clauses._replace(lo=clauses.lo.copy(), hi=clauses.hi.copy())
        own_sets(clauses, used, sets)
    return sets, end, clauses._replace(sets=sets)


def _joined(a: Clauses, b: Clauses) -> Clauses:
    """Clauses with the same sets, one after the other."""
    start = np.concatenate([a.start, b.start[1:] + a.start[-1] - b.start[0]])
    atoms = slice(int(b.start[0]), int(b.start[-1]))
    column, kind, lo, hi = (
        np.concatenate([x, y[atoms]]) for x, y in zip(a[1:5], b[1:5], strict=True)
    )
    return Clauses(start, column, kind, lo, hi, b.sets)
