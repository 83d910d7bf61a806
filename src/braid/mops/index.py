"""The index of a selection: which form it has, chosen by what each costs on the events at hand.

Few clauses are tested one after the other. More are found by access predicates, whose cost
follows the candidates; where clauses overlap so much that most events have many candidates, the
bitmaps of ASCs may cost less, since a word of them answers for 64 clauses. Which it is depends
on the events: from time to time, the forms that could be used answer the same few rows, and the
faster one goes on. What they answer is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from time import perf_counter_ns
from typing import Any

import numpy as np

from braid.kernels.clauses import PATTERN, Clauses
from braid.mops.access import AccessIndex
from braid.mops.asc import AscIndex
from braid.mops.clause_index import Keys, Numbers, Pairs
from braid.mops.sequential import SequentialIndex, joined
from braid.mops.string_patterns import PatternSet

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


class Form(Enum):
    """How clauses are found: by the fastest form, or always by one."""

    ADAPTIVE = "adaptive"
    ACCESS = "access predicates"
    ASC = "attribute selection constructs"
    IN_TURN = "in turn"


class AdaptiveIndex:
    """Clauses under ids. `patterns`: the texts that some columns are compared with."""

    def __init__(self, form: Form, patterns: Mapping[int, PatternSet] | None = None) -> None:
        self.form = form
        self._patterns = patterns if patterns is not None else {}
        self._columns = 0
        self._few = SequentialIndex()
        self._access: AccessIndex | None = None
        self._asc: tuple[AscIndex, Numbers] | None = None
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
        self._changed()
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
        return self._few if self._access is None else self._access

    def remove(self, ids: Numbers) -> None:
        self._changed()
        base = self._base()
        self._count -= len(ids)
        base.remove(ids)

    def _wants_access(self) -> bool:
        return self.form is not Form.IN_TURN and (self._count > FEW or self.form is Form.ACCESS)

    def _move(self) -> None:
        """From one after the other to an index."""
        self._access = AccessIndex(self._columns, self._patterns)
        clauses, ids = self._few.contents()
        if len(ids):
            self._access.add(clauses, ids)
        self._few.clear()

    def _changed(self) -> None:
        """Bitmaps are of the clauses that there were: built again when forms are compared."""
        if self._asc is not None:
            self._asc = None
            self._compare_at = min(self._compare_at, self._rows + COMPARE_AFTER)

    def widen(self, columns: int) -> None:
        if columns > self._columns:
            self._columns = columns
            self._changed()
            if self._access is not None:
                self._access.widen(columns)

    @property
    def places(self) -> Keys | None:
        """Where the clause of each id lies, if clauses that hold for the same rows lie together."""
        return None if self._access is None or self._waiting else self._access.places

    # ---- rows ----

    def match(self, keys: Keys) -> Pairs:
        if self._rows >= self._compare_at or (self.form is Form.ASC and self._asc is None):
            self._compare(keys)
        self._rows += len(keys)
        return self._match(keys)

    def _match(self, keys: Keys) -> Pairs:
        if self._asc is not None:
            asc, ids = self._asc
            found = asc.match(keys)
            return Pairs(found.rows, ids[found.clauses])
        return self._base().match(keys)

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
        asc = self._bitmaps()
        if asc is None or self.form is Form.ASC:
            self._asc = asc
            return
        self.costs = {"base": cost, Form.ASC.value: _cost(asc[0], trial)}
        limit = cost if self._asc is not None else FASTER * cost
        self._asc = asc if self.costs[Form.ASC.value] < limit else None

    def _bitmaps(self) -> tuple[AscIndex, Numbers] | None:
        if self._asc is not None:
            return self._asc
        clauses, ids = self._base().contents()
        if bool((clauses.kind == PATTERN).any()):
            return None  # bitmaps do not know texts
        if AscIndex.size_of(clauses, self._columns) > MOST_BYTES:
            return None
        return AscIndex(clauses, self._columns), ids

    @property
    def nbytes(self) -> int:
        return int(self._base().nbytes + (self._asc[0].nbytes if self._asc is not None else 0))

    def describe(self) -> dict[str, Any]:
        base = self._base()
        found: dict[str, Any] = (base if self._asc is None else self._asc[0]).describe()
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
