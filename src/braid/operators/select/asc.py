"""The ASC form of the index of clauses: a bitmap of all clauses for every region of every key.

For each key column that a clause restricts there is an attribute selection construct (ASC, see
`operators/select/kernels/asc.py`). A row goes from construct to construct and is dropped as soon as no clause is
left; in which order is a matter of cost only, never of the answer:

* `fixed`: the sequence that was given;
* `macro`: one sequence for all rows, found by the monitor: first a cover (constructs that
  together restrict every clause, since no row can be dropped before), greedily by conditional
  selectivity, then by the ratio of rows dropped;
* `hybrid`: a macro-sequence, and from single regions *micro-arrows* to the construct that is best
  for the rows that come there: the one with which the fewest constructs are evaluated in all
  (`cost`), or the one that by itself fails the most clauses and, once all are covered, drops the
  most rows (`filtering`, as it was first published; it is short-sighted and costs a bit more).

The monitor measures sampled rows and extends the sequence by one construct a period. Every
`recompute` rows two figures are compared with what they were when the sequence was chosen: the
ratio of dropped rows, and the constructs evaluated for a row. If one has changed, relative to that,
by `threshold` or more, a new sequence is looked for. The ratio alone would not do: all complete
sequences drop the same rows, so it does not show that another order has become the better one.

Clauses can leave: their bits are cleared, and everything else stays as it is. An index of other
clauses can take the order over from a former one (`inherit`).

Space is what limits this form: clauses times regions. `size_of` says it before it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from braid.jit.memory import taken
from braid.operators.core.kernels.clauses import HIGHEST, PATTERN, Clauses
from braid.operators.core.selection_settings import MEASURES, STRATEGIES
from braid.operators.select.asc_build import (
    Array,
    build,
    columns_used,
    constants_of,
    owners_of,
    static_order,
    table_of,
    words_for,
)
from braid.operators.select.clause_index import Keys, Pairs
from braid.operators.select.kernels.asc import (
    NO_ARROW,
    UNDECIDED,
    Construct,
    Constructs,
    Counters,
    Plan,
    Tallies,
    Work,
    match_rows,
    measure_arrows,
    measure_next,
    set_bits,
)

_COLUMN, _FIRST, _COUNT, _REGION = map(Construct.word, ("column", "first", "count", "region"))
_DROPPED, _EVALUATED = Counters.word("dropped"), Counters.word("evaluated")
Floats = np.ndarray[Any, np.dtype[np.float64]]


class AscIndex:
    """For each row of keys the clauses that hold for it.

    A test of a text against a pattern does not restrict a clause here: clauses that have one are
    in `unverified`, and the caller verifies the pairs in which they occur. All other atoms are
    exact.
    """

    def __init__(
        self,
        clauses: Clauses,
        columns: int,
        *,
        strategy: str = "hybrid",
        sequence: Sequence[int] | None = None,
        measure: str = "cost",
        period: int = 2_000,
        sample: int = 8,
        recompute: int = 10_000,
        threshold: float = 0.02,
    ) -> None:
        """`sequence` are key columns, for `fixed`; `measure` chooses micro-arrows, for `hybrid`.

        `period`, `recompute` and `threshold` are the tau, lambda (both in rows) and mu of the
        ASC; the monitor looks at every `sample`-th row.
        """
        assert strategy in STRATEGIES, f"{strategy!r} is none of {STRATEGIES}"
        assert measure in MEASURES, f"{measure!r} is none of {MEASURES}"
        assert period > 0
        assert sample > 0
        assert recompute > 0
        self.columns = columns
        self.strategy = strategy
        self.constructs = build(clauses, columns)
        self.unverified = np.unique(owners_of(clauses)[clauses.kind == PATTERN]).astype(np.int32)
        self._clauses = clauses.total
        self._options = (measure if strategy == "hybrid" else None, period, sample)
        self._recompute, self._threshold = recompute, threshold
        constructs, regions = len(self.constructs.shape), len(self.constructs.results)
        words = len(self.constructs.restricted)
        self._work = Work(
            np.zeros(words, np.int64),
            np.zeros(words, np.int64),
            np.zeros(constructs, np.int64),
            np.zeros(Counters.stride // 8, np.int64),
            np.zeros(constructs, np.int64),
            np.zeros(words, np.int64),
            np.zeros(constructs, np.int64),
        )
        order = static_order(self.constructs) if sequence is None else self._given(sequence)
        self.plan = Plan(order, np.full(regions, NO_ARROW))
        adaptive = strategy != "fixed" and constructs > 1
        self._monitor = Monitor(self.constructs, *self._options) if adaptive else None
        self._adaptive = adaptive
        self._arrangements = 0
        self._initial_ratio = 0.0
        #: What a row cost after the sequence was chosen; None until that has been measured.
        self._initial_cost: float | None = None
        self._window = Window()
        self._arranging = Window()
        self._settled = Window()

    def match(self, keys: Keys) -> Pairs:
        assert keys.ndim == 2
        assert keys.shape[1] == self.columns
        found: list[Array] = []
        start = 0
        while start < len(keys):
            stop = min(len(keys), start + self._rows_to_go())
            rows = keys[start:stop]
            before = self._work.counters.copy()
            out, count = match_rows(self.constructs, self.plan, self._work, rows, start)
            found.append(taken(out, count))
            if self._adaptive:
                self._watch(rows, self._work.counters - before)
            start = stop
        pairs = np.concatenate(found) if found else np.empty(0, np.int64)
        return Pairs((pairs >> 32).astype(np.int32), pairs.astype(np.int32))

    @property
    def sequence(self) -> list[int]:
        """The macro-sequence in use, as key columns."""
        return [int(self.constructs.shape[construct, _COLUMN]) for construct in self.plan.order]

    @property
    def nbytes(self) -> int:
        arrays = (*self.plan, *self._work)
        monitored = 0 if self._monitor is None else self._monitor.nbytes
        return self.constructs.nbytes + sum(int(a.nbytes) for a in arrays) + monitored

    def describe(self) -> dict[str, Any]:
        counters = Counters.at(self._work.counters)
        rows = counters.rows
        return {
            "form": "asc",
            "strategy": self.strategy,
            "measure": self._options[0],
            "clauses": self._clauses,
            "constructs": len(self.constructs.shape),
            "regions": len(self.constructs.results),
            "bytes": self.nbytes,
            "sequence": self.sequence,
            "micro_arrows": int(np.count_nonzero(self.plan.arrows >= 0)),
            "arranging": self._monitor is not None,
            "rearrangements": max(0, self._arrangements - 1),
            "rows": rows,
            "evaluated": counters.evaluated,
            "macro_followed": counters.macro,
            "micro_followed": counters.micro,
            "dropped": counters.dropped,
            "dropping_ratio": counters.dropped / rows if rows else 0.0,
        }

    @staticmethod
    def size_of(clauses: Clauses, columns: int) -> int:
        """How many bytes an index would take at most, its monitor included."""
        words = words_for(clauses.total)
        used = columns_used(clauses, columns)
        constructs, total = len(used), 0
        for column in used:
            constants = constants_of(clauses, column)
            regions = 2 * len(constants) + 2
            row = words + words_for(constructs) + 5 + 3 * (constructs + 1)
            total += regions * row + len(constants) + table_of(constants, words)[0]
            total += words + Construct.stride // 8 + 4
        return 8 * (total + 6 * words + Counters.stride // 8 + 4)

    def _given(self, sequence: Sequence[int]) -> Array:
        mine = [int(column) for column in self.constructs.shape[:, _COLUMN]]
        assert sorted(sequence) == sorted(mine), f"{sequence} is no order of {mine}"
        return np.array([mine.index(column) for column in sequence], np.int64)

    def _rows_to_go(self) -> int:
        """How many rows can be matched before something is to be decided."""
        if not self._adaptive:
            return int(HIGHEST)
        left = self._recompute - self._window.rows
        return left if self._monitor is None else min(left, self._monitor.rows_to_go)

    def _watch(self, rows: Keys, counted: Array) -> None:
        """Monitor rows that have been matched, and see whether the sequence is still good."""
        part = Window(len(rows), int(counted[_DROPPED]), int(counted[_EVALUATED]))
        self._window = self._window.plus(part)
        if self._monitor is not None:
            self._arranging = self._arranging.plus(part)
            self._arrange(self._monitor, rows)
        else:
            self._settled = self._settled.plus(part)
        if self._window.rows == self._recompute:
            if self._monitor is None:
                self._judge()
            self._window = Window()

    def _judge(self) -> None:
        """Look for a new sequence if the figures of the last rows are not those of the first."""
        window = self._window
        changed = _has_changed(window.ratio, self._initial_ratio, self._threshold)
        if self._initial_cost is None:
            if 4 * self._settled.rows >= self._recompute:  # of fewer rows it says little
                self._initial_cost = self._settled.cost
        else:
            changed |= _has_changed(window.cost, self._initial_cost, self._threshold)
        if changed:
            self._monitor = Monitor(self.constructs, *self._options)
            self._arranging = Window()

    def _arrange(self, monitor: Monitor, rows: Keys) -> None:
        decided = monitor.observe(rows, self._work)
        if monitor.done or (decided and self._arrangements == 0):
            # The first sequence is used as far as it is known; later ones replace a whole one.
            arrows = np.where(monitor.arrows == UNDECIDED, NO_ARROW, monitor.arrows)
            self.plan = Plan(monitor.order(self.plan.order), arrows)
        if monitor.done:
            # All complete sequences drop the same rows: the ratio is that of the new one.
            self._initial_ratio = self._arranging.ratio
            self._initial_cost, self._settled = None, Window()
            self._arrangements += 1
            self._monitor = None

    # --- clauses that come and go ---

    def remove(self, clauses: Array) -> None:
        """These clauses hold for no row any more; their numbers stay taken."""
        kept = np.full(len(self.constructs.restricted), -1, np.int64)
        gone = np.zeros_like(kept)
        set_bits(gone, np.asarray(clauses, np.int64))
        kept &= ~gone
        asc = self.constructs
        for bitmaps in (asc.results, asc.usage, asc.restricted, asc.free):
            np.bitwise_and(bitmaps, kept, out=bitmaps)
        if self._monitor is not None:
            self._monitor.uncovered &= kept

    def widen(self, columns: int) -> None:
        """Rows have more keys from now on, to the right of those there are."""
        self.columns = max(self.columns, columns)

    def inherit(self, former: AscIndex) -> None:
        """Go on with the order and the counts of an index of other clauses.

        Its arrows leave the regions here that lie in the regions that they left there. If clauses
        restrict other columns than there, the monitor looks for a place for these.
        """
        self._work.counters[:] = former._work.counters
        self._arrangements = former._arrangements
        mine = {
            int(column): place for place, column in enumerate(self.constructs.shape[:, _COLUMN])
        }
        known = [mine[column] for column in former.sequence if column in mine]
        rest = [int(place) for place in self.plan.order if place not in known]
        target = np.array([mine.get(int(c), NO_ARROW) for c in former.constructs.shape[:, _COLUMN]])
        arrows = np.full(len(self.constructs.results), NO_ARROW)
        for place, shape in enumerate(former.constructs.shape):
            if int(shape[_COLUMN]) not in mine:
                continue
            own = self.constructs.shape[mine[int(shape[_COLUMN])]]
            first, count = int(own[_REGION]), 2 * int(own[_COUNT]) + 2
            lies_in = _regions_within(_own_constants(self.constructs, own), former, place)
            left = former.plan.arrows[lies_in]
            arrows[first : first + count] = np.where(left >= 0, target[left], NO_ARROW)
        self.plan = Plan(np.array(known + rest, np.int64), arrows)
        if not rest and former._monitor is None:
            self._monitor = None
            self._initial_ratio = former._initial_ratio


def _has_changed(figure: float, initial: float, threshold: float) -> bool:
    """Whether a figure differs from what it was, relative to that, by the threshold or more."""
    change = abs(figure - initial)
    if initial == 0.0:
        return change > 0.0 or threshold == 0.0
    return change / initial >= threshold


def _own_constants(asc: Constructs, shape: Array) -> Array:
    constants: Array = asc.constants[shape[_FIRST] : shape[_FIRST] + shape[_COUNT]]
    return constants


def _regions_within(constants: Array, former: AscIndex, place: int) -> Array:
    """For each region that these constants make, the region of a former construct it lies in."""
    shape = former.constructs.shape[place]
    old = _own_constants(former.constructs, shape)
    below = np.searchsorted(old, constants, "left")
    equal = np.isin(constants, old)
    local = np.empty(2 * len(constants) + 2, np.int64)
    local[1:-1:2] = 2 * below + equal  # the constants themselves
    local[0:-2:2] = 2 * below  # the stretches below them
    local[-2] = 2 * len(old)
    local[-1] = 2 * len(old) + 1  # NULL
    return int(shape[_REGION]) + local


class Window(NamedTuple):
    """Rows, how many of them were dropped, and the constructs that were evaluated for them."""

    rows: int = 0
    dropped: int = 0
    evaluated: int = 0

    def plus(self, other: Window) -> Window:
        return Window(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def ratio(self) -> float:
        return self.dropped / self.rows

    @property
    def cost(self) -> float:
        return self.evaluated / self.rows


class Monitor:
    """Looks for a new sequence: one construct, or one level of micro-arrows, a period."""

    #: A region's figures are mixed with so many rows of its construct's average, so that an arrow
    #: does not rest on the few rows that happened to come by.
    AVERAGE_ROWS = 4

    def __init__(
        self,
        constructs: Constructs,
        measure: str | None,
        period: int,
        sample: int,
        sequence: Sequence[int] = (),
    ) -> None:
        """`sequence` is known already; the rest is looked for."""
        self.constructs = constructs
        self.measure = measure  # None: no micro-arrows
        self.period = period
        self.sample = sample
        self.sequence: list[int] = []
        self.rest = list(range(len(constructs.shape)))
        self.selectivity = np.zeros(len(self.rest))
        self.uncovered = constructs.restricted.copy()
        for construct in sequence:
            self._append(self.rest.index(construct))
        self.arrows = np.full(len(constructs.results), UNDECIDED if measure else NO_ARROW)
        self.tallies: Tallies | None = None
        self.level = 0  # so many levels of micro-arrows have been decided
        self.done = False
        self._begin()

    @property
    def rows_to_go(self) -> int:
        return self.period - self.seen

    @property
    def nbytes(self) -> int:
        tallies = 0 if self.tallies is None else sum(int(a.nbytes) for a in self.tallies)
        return int(self.arrows.nbytes + self.uncovered.nbytes) + tallies

    def order(self, former: Array) -> Array:
        """The sequence as far as it is known, and then the rest as it was before."""
        rest = [int(construct) for construct in former if construct not in self.sequence]
        return np.array(self.sequence + rest, np.int64)

    def observe(self, rows: Keys, work: Work) -> bool:
        """Measure rows of this period; whether it is over, and something has been decided."""
        keys = np.ascontiguousarray(rows[-self.seen % self.sample :: self.sample])
        self.seen += len(rows)
        self.measured += len(keys)
        if self.tallies is None:
            work.uncovered[:] = self.uncovered
            sequence, rest = np.array(self.sequence, np.int64), np.array(self.rest, np.int64)
            arguments = (sequence, rest, self.passed, self.dropped)
            measure_next(self.constructs, work, keys, *arguments)
        else:
            plan = Plan(np.array(self.sequence, np.int64), self.arrows)
            self.arrived += int(measure_arrows(self.constructs, work, keys, plan, self.tallies))
        if self.seen < self.period:
            return False
        if self.tallies is None:
            self._extend()
        else:
            self._decide_arrows(self.tallies)
        self._begin()
        return True

    def _begin(self) -> None:
        """A new period."""
        self.seen = self.measured = self.arrived = 0
        self.passed = np.zeros(len(self.rest), np.int64)
        self.dropped = np.zeros(len(self.rest), np.int64)
        if self.rest:
            return
        self.done |= not self.measure or self.level >= len(self.sequence) - 2
        if self.done:
            return
        regions, targets = len(self.arrows), len(self.sequence) + 1
        lines = [np.zeros(regions, np.int64) for _ in range(3)]
        planes = [np.zeros((regions, targets), np.int64) for _ in range(3)]
        self.tallies = Tallies(*lines, *planes)

    def _extend(self) -> None:
        """Append the construct that the period has shown to be the best next one."""
        words = self.constructs.usage & self.uncovered
        if not self.sequence:
            clauses = int(np.bitwise_count(self.uncovered).sum())
            self.selectivity = self.passed / (clauses * max(1, self.measured))
        if self.uncovered.any():
            # One that covers nothing new passes every uncovered clause, so it is never better.
            covering = [k for k, c in enumerate(self.rest) if words[c].any()]
            best = min(covering, key=lambda k: (self.passed[k], self.selectivity[self.rest[k]]))
        else:
            places = range(len(self.rest))
            best = min(places, key=lambda k: (-self.dropped[k], self.selectivity[self.rest[k]]))
        self._append(best)
        if len(self.rest) == 1:
            self._append(0)

    def _append(self, place: int) -> None:
        construct = self.rest.pop(place)
        self.sequence.append(construct)
        self.uncovered &= ~self.constructs.usage[construct]

    def _decide_arrows(self, tallies: Tallies) -> None:
        """The best micro-arrow, if it beats the macro-arrow, of each region that rows came to."""
        self.level += 1
        self.done = self.arrived == 0
        for first, count in self.constructs.shape[:, [_REGION, _COUNT]]:
            regions = np.arange(first, first + 2 * count + 2)
            visited = regions[tallies.visits[regions] > 0]
            if len(visited):
                self.arrows[visited] = self._best_arrows(tallies, visited)

    def _best_arrows(self, tallies: Tallies, visited: Array) -> Array:
        """Each region's micro-arrow: to the best candidate, if it is as good as the macro-arrow."""
        score, order = self._scores(tallies, visited), np.array(self.sequence)
        candidate = (self.constructs.candidates[visited][:, order >> 6] >> (order & 63)) & 1
        choices = np.where(candidate == 1, score[:, order], np.inf)
        place = np.argmin(choices, axis=1)  # of equals the first in the macro-sequence
        as_good = choices[np.arange(len(visited)), place] <= score[:, -1] + 1e-12
        return np.where(as_good, order[place], NO_ARROW)

    def _scores(self, tallies: Tallies, visited: Array) -> Floats:
        """How bad each construct, and last the macro-arrow, is for the rows in each region."""
        visits = tallies.visits
        if self.measure == "cost":
            return self._ratios(tallies.further, visits, visits, visited)
        passed = self._ratios(tallies.passed, tallies.alive, visits, visited)
        dropped = self._ratios(tallies.dropped, visits, visits, visited)
        before_cover = 2 * tallies.before_cover[visited, None] > visits[visited, None]
        # A tie in the ratio of dropped rows goes to the lower selectivity.
        return np.where(before_cover, passed, 1e-6 * passed - dropped)

    def _ratios(self, parts: Array, wholes: Array, visits: Array, visited: Array) -> Floats:
        """Ratios in the visited regions, drawn towards their average by some average visits."""
        whole = float(wholes[visited].sum())
        average = parts[visited].sum(0) / whole
        weight = self.AVERAGE_ROWS * whole / float(visits[visited].sum())
        ratios: Floats = (parts[visited] + weight * average) / (wholes[visited, None] + weight)
        return ratios
