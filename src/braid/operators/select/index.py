"""The index of a selection: which form it has, chosen by what each costs on the events at hand.

Few clauses are tested one after the other. More are found by access predicates, whose cost
follows the candidates; where clauses overlap so much that most events have many candidates, the
bitmaps of ASCs may cost less, since a word of them answers for 64 clauses. Which it is depends
on the events: from time to time, the forms that could be used answer the same few rows, and the
faster one goes on. What they answer is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np

from braid.operators.core.kernels.clauses import PATTERN, Clauses
from braid.operators.core.selection_settings import Form, SelectionSettings
from braid.operators.select.access import AccessIndex
from braid.operators.select.asc import AscIndex
from braid.operators.select.clause_index import Keys, Numbers, Pairs
from braid.operators.select.sequential import SequentialIndex, joined
from braid.operators.select.string_patterns import PatternSet

#: As many clauses are tested faster than an index is probed.
FEW = 12
#: Bitmaps larger than this are not built: access predicates do what they would run out of.
MOST_BYTES = 64 << 20
#: Rows after which forms are compared, and again after as many times more.
COMPARE_AFTER, AGAIN = 4_096, 16
#: Rows that a form is tried on.
TRIAL = 512
#: Nanoseconds that a word of a bitmap costs at least.
LEAST_PER_WORD = 0.3
#: A form must be so much faster to be worth a change.
FASTER = 0.8


#: Clauses that came after bitmaps were built are found apart, until they are so many, or such a
#: part of all; then the bitmaps are built again.
ADDED, ADDED_PART = 64, 8
#: Bitmaps that a user asks for may be so many times larger.
ASKED_FOR = 16


class LiveBitmaps:
    """The ASC form of clauses that come and go.

    Clauses that go have their bits cleared. Those that come are found by an index of their own
    beside the bitmaps, so that neither throws away the bitmaps or the order in which constructs
    are evaluated.
    """

    def __init__(
        self,
        clauses: Clauses,
        ids: Numbers,
        columns: int,
        settings: SelectionSettings,
        patterns: Mapping[int, PatternSet],
        former: LiveBitmaps | None = None,
    ) -> None:
        self.asc = AscIndex(
            clauses,
            columns,
            strategy=settings.strategy,
            measure=settings.measure,
            period=settings.tau,
            sample=settings.sample,
            recompute=settings.recompute,
            threshold=settings.mu,
        )
        if former is not None:
            self.asc.inherit(former.asc)
        self._ids = np.array(ids, np.int64)
        self._gone = 0
        self._columns = columns
        self._patterns = patterns
        self._added: AdaptiveIndex | None = None
        self._added_ids: set[int] = set()

    def match(self, keys: Keys) -> Pairs:
        found = self.asc.match(keys)
        rows, ids = found.rows, self._ids[found.clauses].astype(np.int32)
        if self._added is None or not self._added_ids:
            return Pairs(rows, ids)
        more = self._added.match(keys)
        if not len(more.rows):
            return Pairs(rows, ids)
        rows, ids = np.concatenate([rows, more.rows]), np.concatenate([ids, more.clauses])
        order = np.argsort(rows, kind="stable")
        return Pairs(rows[order], ids[order])

    def add(self, clauses: Clauses, ids: Numbers) -> None:
        if self._added is None:
            self._added = AdaptiveIndex(SelectionSettings(), self._patterns)
            self._added.widen(self._columns)
        self._added.add(clauses, ids)
        self._added_ids.update(ids.tolist())

    def remove(self, ids: Numbers) -> None:
        own = set(ids.tolist())
        added = own & self._added_ids
        if added and self._added is not None:
            self._added.remove(np.array(sorted(added), np.int32))
            self._added_ids -= added
        left = np.array(sorted(own - added), np.int64)
        clauses = np.flatnonzero(np.isin(self._ids, left))
        self.asc.remove(clauses)
        self._ids[clauses] = -1
        self._gone += len(clauses)

    def widen(self, columns: int) -> None:
        self._columns = columns
        self.asc.widen(columns)
        if self._added is not None:
            self._added.widen(columns)

    @property
    def is_worn(self) -> bool:
        """Whether so much has changed that building them again pays."""
        left = len(self._ids) - self._gone
        return len(self._added_ids) > max(ADDED, left // ADDED_PART) or self._gone > left

    @property
    def nbytes(self) -> int:
        return self.asc.nbytes + (0 if self._added is None else self._added.nbytes)

    def describe(self) -> dict[str, Any]:
        found = self.asc.describe()
        found["clauses"] = len(self._ids) - self._gone + len(self._added_ids)
        if self._added_ids:
            found["added"] = len(self._added_ids)
        return found


class AdaptiveIndex:
    """Clauses under ids. `patterns`: the texts that some columns are compared with."""

    def __init__(
        self, settings: SelectionSettings, patterns: Mapping[int, PatternSet] | None = None
    ) -> None:
        self.settings = settings
        self.form = settings.form
        self._patterns = patterns if patterns is not None else {}
        self._columns = 0
        self._few = SequentialIndex()
        self._access: AccessIndex | None = None
        self._asc: LiveBitmaps | None = None
        #: Why bitmaps that were asked for are not used.
        self._refused: str | None = None
        self._count = 0
        #: Clauses that have come since the index was last asked: many at a time cost little more
        #: than one.
        self._waiting: list[tuple[Clauses, Numbers]] = []
        self._rows = 0
        self._compare_at = COMPARE_AFTER
        #: Nanoseconds a row of each form when they were last compared.
        self.costs: dict[str, float] = {}

    # ---- clauses ----

    def add(self, clauses: Clauses, ids: Numbers) -> None:
        self._refused = None
        self._count += clauses.total
        self._waiting.append((clauses, ids))

    def _base(self) -> SequentialIndex | AccessIndex:
        """What has all clauses in it."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            clauses, ids = joined([c for c, _ in waiting]), np.concatenate([i for _, i in waiting])
            texts = bool((clauses.kind == PATTERN).any())
            if self._access is None and (self._wants_access() or texts):
                self._move()
            (self._few if self._access is None else self._access).add(clauses, ids)
            if self._asc is not None:
                self._asc.add(clauses, ids)
        return self._few if self._access is None else self._access

    def remove(self, ids: Numbers) -> None:
        self._refused = None
        base = self._base()
        self._count -= len(ids)
        base.remove(ids)
        if self._asc is not None:
            self._asc.remove(ids)

    def _wants_access(self) -> bool:
        return self.form is not Form.IN_TURN and (self._count > FEW or self.form is Form.ACCESS)

    def _move(self) -> None:
        """From one after the other to an index."""
        self._access = AccessIndex(self._columns, self._patterns)
        clauses, ids = self._few.contents()
        if len(ids):
            self._access.add(clauses, ids)
        self._few.clear()

    def widen(self, columns: int) -> None:
        if columns > self._columns:
            self._columns = columns
            if self._access is not None:
                self._access.widen(columns)
            if self._asc is not None:
                self._asc.widen(columns)

    @property
    def places(self) -> Keys | None:
        """Where the clause of each id lies, if clauses that hold for the same rows lie together."""
        return None if self._access is None or self._waiting else self._access.places

    # ---- rows ----

    def match(self, keys: Keys) -> Pairs:
        base = self._base()
        if self._asc is not None and self._asc.is_worn:
            self._asc = self._built(self._asc)
        wanted = self.form is Form.ASC and self._asc is None and self._refused is None
        if self._rows >= self._compare_at or wanted:
            self._compare(keys)
        self._rows += len(keys)
        return (self._asc or base).match(keys)

    def _compare(self, keys: Keys) -> None:
        """Let every form answer some rows, and go on with the fastest."""
        self._compare_at = AGAIN * max(self._rows, COMPARE_AFTER)
        if self.form not in (Form.ADAPTIVE, Form.ASC) or self._count == 0:
            return
        trial = np.ascontiguousarray(keys[:TRIAL])
        cost = _cost(self._base(), trial)
        if self.form is Form.ADAPTIVE and cost < LEAST_PER_WORD * self._count / 64:
            self._asc = None  # one bitmap of that many clauses costs more
            return
        asc = self._asc or self._built(None)
        if asc is None or self.form is Form.ASC:
            self._asc = asc
            return
        self.costs = {"base": cost, Form.ASC.value: _cost(asc, trial)}
        limit = cost if self._asc is not None else FASTER * cost
        self._asc = asc if self.costs[Form.ASC.value] < limit else None

    def _built(self, former: LiveBitmaps | None) -> LiveBitmaps | None:
        """Bitmaps of all clauses; None, and why, if there can be none."""
        clauses, ids = self._base().contents()
        if bool((clauses.kind == PATTERN).any()):
            self._refused = "bitmaps do not know tests of texts"
            return None
        most = MOST_BYTES * (ASKED_FOR if self.form is Form.ASC else 1)
        size = AscIndex.size_of(clauses, self._columns)
        if size > most:
            self._refused = f"bitmaps would take {size:,} bytes, more than {most:,}"
            return None
        return LiveBitmaps(clauses, ids, self._columns, self.settings, self._patterns, former)

    @property
    def nbytes(self) -> int:
        return int(self._base().nbytes + (self._asc.nbytes if self._asc is not None else 0))

    def describe(self) -> dict[str, Any]:
        base = self._base()
        found: dict[str, Any] = (self._asc or base).describe()
        if self.form is Form.ASC and self._refused is not None:
            found["asc_not_used"] = self._refused
        costs = {form: round(cost, 1) for form, cost in self.costs.items()}
        return {**found, "nanoseconds_per_row": costs} if costs else found


def _cost(index: Any, keys: Keys) -> float:
    """Nanoseconds a row, the second time: the first one compiles and fills caches."""
    best = float("inf")
    for _ in range(2):
        begun = perf_counter_ns()
        index.match(keys)
        best = min(best, (perf_counter_ns() - begun) / max(1, len(keys)))
    return best
