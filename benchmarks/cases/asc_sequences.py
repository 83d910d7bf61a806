"""The order in which attribute selection constructs (ASC) are evaluated, and what it costs.

Cost is counted: constructs evaluated, over all tuples. The macro- and the hybrid-sequence, which
adapt to what they see, against the cheapest and the dearest of all fixed sequences, which know
all data beforehand, and against ticket routing (the lottery of an eddy, whose cost is the number
of modules visited). `hybrid_filtering` chooses micro-arrows as they were first published. All must
find the same queries for the same tuples. Costs are added up over several draws of data and
queries, lest a ratio be that of a lucky one.

A fixed sequence costs the tuples that are not dropped by each of its prefixes, and those depend
on the *set* of attributes in the prefix only: the best and the worst of n! sequences are found
over the 2^n subsets.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Case, Measured, Prepared, Ratio, Runner, Size
from braid.jit.runtime import kernel
from braid.operators.core.kernels.clauses import HIGHEST, INTERVAL, LOWEST, Clauses
from braid.operators.select.asc import AscIndex
from braid.operators.select.kernels.asc import Construct

FIRST, COUNT, REGION = (Construct.word(name) for name in ("first", "count", "region"))

Ints = npt.NDArray[np.int64]
#: Counters, a digest of the answer, seconds.
Outcome = tuple[dict[str, Any], int, float]
#: A point and a seed.
Problem = tuple[str, int]

ATTRIBUTES = 20
DOMAIN = 100
BATCH = 50_000

#: Queries, predicates, attributes and spread as table 1 has them. The spread is the standard
#: deviation, over the regions of a construct, of the share of ones in query-result bitmaps. With
#: 173 ranges over 15 attributes it cannot be as large as the table says: it comes to 0.12.
Q1 = (50, 204, 10, 0.08)
Q2 = (50, 173, 15, 0.2)
Q3 = ((30, 78, 6, 0.06), (30, 81, 7, 0.06), (35, 98, 8, 0.15), (40, 138, 10, 0.1), (*Q2[:3], 0.25))
Q4 = tuple((50, 362, 10, spread) for spread in (0.06, 0.1, 0.14, 0.18))
POINTS = {"D1": Q1, "D2": Q1, "D3": Q2}

SMALL = {
    "tuples": 40_000,
    "seeds": (11, 12, 13),  # none of those that the monitor's settings were chosen with
    "recompute": 10_000,
    "period": 250,
    "figure_9_recompute": 8_000,
}
FULL = SMALL | {"tuples": 500_000, "period": 1_000, "figure_9_recompute": 80_000}
THRESHOLDS = (0.0, 0.02, 0.05, 0.1, 0.5)


# --- Data and queries -----------------------------------------------------------------------


def uniform(random: np.random.Generator, tuples: int) -> Ints:
    return random.integers(0, DOMAIN, (tuples, ATTRIBUTES))


def skewed(random: np.random.Generator, tuples: int) -> Ints:
    """Each attribute has a few frequent stretches of values and a thin rest."""
    columns = []
    for _ in range(ATTRIBUTES):
        middles, weights = random.uniform(0, DOMAIN, 3), random.dirichlet((1.0, 1.0, 1.0, 0.5))
        kinds = random.choice(4, tuples, p=weights)
        peaks = random.normal(np.append(middles, 0)[kinds], random.uniform(2, 9))
        rest = random.uniform(0, DOMAIN, tuples)
        columns.append(np.where(kinds == 3, rest, peaks % DOMAIN))
    return np.stack(columns, axis=1).astype(np.int64)


def correlated(random: np.random.Generator, tuples: int) -> Ints:
    """Tuples are of ten kinds; a kind has a usual value in most attributes."""
    kinds = random.choice(10, tuples, p=random.dirichlet(np.full(10, 2.0)))
    usual = random.uniform(0, DOMAIN, (10, ATTRIBUTES))
    widths = random.uniform(1, 25, (10, ATTRIBUTES))
    values = random.normal(usual[kinds], widths[kinds])
    return np.clip(values, 0, DOMAIN - 1).astype(np.int64)


DATA = {"D1": uniform, "D2": skewed, "D3": correlated}


@cache
def data(name: str, tuples: int, seed: int) -> Ints:
    random = np.random.default_rng((seed, sorted(DATA).index(name)))
    return np.ascontiguousarray(DATA[name](random, tuples))


@cache
def queries(specification: tuple[int, int, int, float], seed: int, uneven: float = 6.0) -> Clauses:
    """Conjunctions of ranges to a line of table 1: of many sets, the one nearest in spread.

    The more ranges of an attribute lie about the same value, the more its regions differ. With
    that, some attributes get rarer than others, unless `uneven` is 0.
    """
    count, predicates, attributes, spread = specification
    best: tuple[float, Clauses] | None = None
    for step in range(21):
        random = np.random.default_rng((seed, count, predicates, attributes, step))
        uses = _draw_uses(random, count, predicates, uneven * step / 20 * random.random(attributes))
        clauses = _draw_queries(random, uses, step / 20)
        miss = abs(spread_of(clauses) - spread)
        if best is None or miss < best[0]:
            best = (miss, clauses)
    assert best is not None
    return best[1]


def _draw_queries(
    random: np.random.Generator, uses: npt.NDArray[np.bool_], gathered: float
) -> Clauses:
    count, attributes = uses.shape
    columns = np.sort(random.choice(ATTRIBUTES, attributes, replace=False))
    popular, width = random.uniform(10, 90, attributes), random.uniform(3, 15, attributes)
    lists: list[tuple[int, int, int, int]] = []
    for query, place in np.argwhere(uses):
        near = random.random() < gathered
        middle = random.normal(popular[place], 4) if near else random.uniform(0, DOMAIN)
        half = random.uniform(0, width[place])
        low, high = int(np.ceil(middle - half)), int(np.floor(middle + half))
        bounds = (low if low > 0 else LOWEST, high if high < DOMAIN - 1 else HIGHEST)
        lists.append((int(query), int(columns[place]), *(int(b) for b in bounds)))
    owner, column, low_keys, high_keys = np.array(lists, np.int64).T.copy()
    start = np.searchsorted(owner, np.arange(count + 1)).astype(np.int64)
    kinds, none = np.full(len(owner), INTERVAL, np.int64), np.empty(0, np.int64)
    return Clauses(start, column, kinds, low_keys, high_keys, none)


def _draw_uses(
    random: np.random.Generator, count: int, predicates: int, rareness: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Which query restricts which attribute: at least two each, of rare attributes fewer."""
    attributes = len(rareness)
    weight = np.exp(-rareness) * np.ones((count, 1))
    uses = np.zeros((count, attributes), np.bool_)
    for query in range(count):
        uses[query, random.choice(attributes, 2, replace=False, p=weight[0] / weight[0].sum())] = (
            True
        )
    while (missing := predicates - int(uses.sum())) > 0:
        free = np.where(uses, 0.0, weight).ravel()
        drawn = random.choice(free.size, min(missing, 8), replace=False, p=free / free.sum())
        uses.ravel()[drawn] = True
    return uses


def spread_of(clauses: Clauses) -> float:
    """How far the share of ones in a region's bitmap is from the mean of its construct."""
    asc = AscIndex(clauses, ATTRIBUTES, strategy="fixed").constructs
    shares = np.bitwise_count(asc.results).sum(1) / clauses.total
    parts = [shares[first : first + 2 * n + 1] for first, n in asc.shape[:, [REGION, COUNT]]]
    return float(np.concatenate([part - part.mean() for part in parts]).std())


# --- Fixed sequences and ticket routing -------------------------------------------------------


def result_words(clauses: Clauses, keys: Ints) -> Ints:
    """The query-result bitmap, one word, of each tuple on each p-attribute."""
    asc = AscIndex(clauses, ATTRIBUTES, strategy="fixed").constructs
    assert asc.results.shape[1] == 1
    words = np.empty((len(keys), len(asc.shape)), np.int64)
    for place, shape in enumerate(asc.shape):
        constants = asc.constants[shape[FIRST] : shape[FIRST] + shape[COUNT]]
        values = keys[:, shape[0]]
        below = np.searchsorted(constants, values)
        equal = constants[np.minimum(below, len(constants) - 1)] == values
        words[:, place] = asc.results[shape[REGION] + 2 * below + equal, 0]
    return words


@kernel()
def count_alive(words: np.ndarray, scratch: np.ndarray, alive: np.ndarray) -> None:
    """How many tuples each subset of the attributes leaves."""
    for row in range(words.shape[0]):
        scratch[0] = -1
        for place in range(words.shape[1]):
            size = 1 << place
            for subset in range(size):
                scratch[size + subset] = scratch[subset] & words[row, place]
        for subset in range(alive.shape[0]):
            alive[subset] += scratch[subset] != 0


@dataclass(frozen=True)
class Fixed:
    """A fixed sequence of places of p-attributes, and its cost."""

    sequence: tuple[int, ...]
    cost: int


def best_and_worst(words: Ints) -> tuple[Fixed, Fixed]:
    attributes = words.shape[1]
    alive = np.zeros(1 << attributes, np.int64)
    count_alive(words, np.empty(1 << attributes, np.int64), alive)
    return _extreme(alive, attributes, 1), _extreme(alive, attributes, -1)


def _extreme(alive: Ints, attributes: int, sign: int) -> Fixed:
    """cost(subset) = the least, over its last attribute, of cost(before) + alive(before)."""
    counts = [sign * int(count) for count in alive]
    cost, last = [0] * len(counts), [0] * len(counts)
    for subset in range(1, len(counts)):
        before = [(p, subset ^ (1 << p)) for p in range(attributes) if subset >> p & 1]
        cost[subset], last[subset] = min((cost[b] + counts[b], p) for p, b in before)
    sequence: list[int] = []
    subset = len(counts) - 1
    while subset:
        sequence.append(last[subset])
        subset ^= 1 << last[subset]
    return Fixed(tuple(reversed(sequence)), sign * cost[-1])


@kernel()
def route_by_tickets(words: np.ndarray, seed: int, left: np.ndarray) -> int:
    """Modules visited; `left` gets the queries that each tuple satisfies.

    A module gains a ticket when a tuple is sent to it and loses one when the tuple comes back;
    which of the modules that a tuple has not visited is next is drawn by lottery. What is won in
    a window of tuples counts in the next one.
    """
    np.random.seed(seed)
    modules = words.shape[1]
    banked, escrow = np.zeros(modules), np.zeros(modules)
    visited = np.zeros(modules, np.int64)
    visits = 0
    for row in range(words.shape[0]):
        if row % 1_000 == 0:
            banked[:] = escrow
            escrow[:] = 0.0
        alive = np.int64(-1)
        for _ in range(modules):
            total = 0.0
            for module in range(modules):
                if visited[module] <= row:
                    total += banked[module] + 1.0
            drawn, chosen = np.random.random() * total, -1
            for module in range(modules):
                if visited[module] <= row:
                    chosen = module
                    drawn -= banked[module] + 1.0
                    if drawn < 0.0:
                        break
            visited[chosen] = row + 1
            visits += 1
            alive &= words[row, chosen]
            if alive == 0:
                escrow[chosen] += 1.0
                break
        left[row] = alive
    return visits


# --- Variants -------------------------------------------------------------------------------


def digest(rows: Any, clauses: Any) -> int:
    value = zlib.crc32(np.asarray(rows, np.int64).tobytes())
    return zlib.crc32(np.asarray(clauses, np.int64).tobytes(), value)


def run_index(index: AscIndex, keys: Ints) -> Outcome:
    """Match all tuples in batches: the counters, a digest of the answer, the seconds."""
    found = []
    started = time.perf_counter()
    for start in range(0, len(keys), BATCH):
        found.append(index.match(keys[start : start + BATCH]))
    seconds = time.perf_counter() - started
    rows = np.concatenate([p.rows.astype(np.int64) + k * BATCH for k, p in enumerate(found)])
    return index.describe(), digest(rows, np.concatenate([p.clauses for p in found])), seconds


def adaptive(clauses: Clauses, size: Size, strategy: str, **options: Any) -> AscIndex:
    given: dict[str, Any] = {
        "strategy": strategy,
        "period": size["period"],
        "sample": 1,
        "recompute": size["recompute"],
        "threshold": 0.0,
    }
    return AscIndex(clauses, ATTRIBUTES, **(given | options))


def fixed(clauses: Clauses, sequence: tuple[int, ...]) -> AscIndex:
    columns = [int(column) for column in np.unique(clauses.column)]
    given = [columns[place] for place in sequence]
    return AscIndex(clauses, ATTRIBUTES, strategy="fixed", sequence=given)


class Variant:
    """One way to order constructs, on all data sets."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.problems = [(point, seed) for point in POINTS for seed in size["seeds"]]

    def prepare(self) -> Prepared:
        started = time.perf_counter()
        self.run(self.problems[0], 20_000)
        compiled = time.perf_counter()
        for problem in self.problems:
            self.register(problem)
        return Prepared(compiled - started, time.perf_counter() - compiled)

    def inputs(self, problem: Problem, tuples: int = 0) -> tuple[Clauses, Ints]:
        point, seed = problem
        keys = data(point, self.size["tuples"], seed)
        return queries(POINTS[point], seed), keys[: tuples or len(keys)]

    def register(self, problem: Problem) -> None:
        """What is known before the first tuple comes."""

    def run(self, problem: Problem, tuples: int = 0) -> Outcome:
        raise AssertionError

    def measure(self) -> Measured:
        tuples = self.size["tuples"] * len(self.size["seeds"])
        costs, spent = dict.fromkeys(POINTS, 0), dict.fromkeys(POINTS, 0.0)
        answers, size = [], 0
        for problem in self.problems:
            told, answer, seconds = self.run(problem)
            costs[problem[0]] += told["evaluated"]
            spent[problem[0]] += seconds
            answers.append(answer)
            size += told.get("bytes", 0)
        extra: dict[str, float] = {f"evaluated@{point}": cost for point, cost in costs.items()}
        for point in POINTS:
            extra[f"per_tuple@{point}"] = costs[point] / tuples
            extra[f"microseconds_per_tuple@{point}"] = 1e6 * spent[point] / tuples
        return Measured(sum(spent.values()), len(POINTS) * tuples, answers, size, extra)

    def close(self) -> None:
        pass


class Macro(Variant):
    options: Mapping[str, Any] = {"strategy": "macro"}

    def run(self, problem: Problem, tuples: int = 0) -> Outcome:
        clauses, keys = self.inputs(problem, tuples)
        return run_index(adaptive(clauses, self.size, **self.options), keys)


class Hybrid(Macro):
    options: Mapping[str, Any] = {"strategy": "hybrid"}


class HybridFiltering(Macro):
    options: Mapping[str, Any] = {"strategy": "hybrid", "measure": "filtering"}


class BestFixed(Variant):
    place = 0

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.found: dict[Problem, Fixed] = {}

    def register(self, problem: Problem) -> None:
        words = result_words(*self.inputs(problem))
        self.found[problem] = best_and_worst(words)[self.place]

    def run(self, problem: Problem, tuples: int = 0) -> Outcome:
        clauses, keys = self.inputs(problem, tuples)
        if problem not in self.found:  # warming up
            return run_index(AscIndex(clauses, ATTRIBUTES, strategy="fixed"), keys)
        told, answer, seconds = run_index(fixed(clauses, self.found[problem].sequence), keys)
        assert told["evaluated"] == self.found[problem].cost, "counted is what was computed"
        return told, answer, seconds


class WorstFixed(BestFixed):
    place = 1


class Ticket(Variant):
    def run(self, problem: Problem, tuples: int = 0) -> Outcome:
        clauses, keys = self.inputs(problem, tuples)
        started = time.perf_counter()
        visits, left = tickets(result_words(clauses, keys))
        seconds = time.perf_counter() - started
        bits = np.unpackbits(left.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        return {"evaluated": visits}, digest(*np.nonzero(bits)), seconds


def tickets(words: Ints) -> tuple[int, Ints]:
    left = np.empty(len(words), np.int64)
    return int(route_by_tickets(words, 1, left)), left


# --- Figures --------------------------------------------------------------------------------


def figures(size: Size) -> Mapping[str, float]:
    return {**figure_7(size), **figure_8(size), **figure_9(size)}


def figure_7(size: Size) -> dict[str, float]:
    """Cost a tuple on D2 against the number of p-attributes."""
    keys = data("D2", size["tuples"], size["seeds"][0])
    told: dict[str, float] = {}
    for specification in Q3:
        clauses = queries(specification, size["seeds"][0])
        words = result_words(clauses, keys)
        best, worst = best_and_worst(words)
        costs: dict[str, float] = {"best_fixed": best.cost, "worst_fixed": worst.cost}
        costs["ticket"] = tickets(words)[0]
        for strategy in ("macro", "hybrid"):
            counters, _, _ = run_index(adaptive(clauses, size, strategy), keys)
            costs[strategy] = counters["evaluated"]
        for name, cost in costs.items():
            told[f"figure_7:{name}@{specification[2]}"] = cost / len(keys)
    return told


def figure_8(size: Size) -> dict[str, float]:
    """Micro ratio, and the cost of hybrid relative to macro, on D1 against the spread of Q4.

    Attributes are used evenly, so that it is regions that differ and not attributes.
    """
    keys = data("D1", size["tuples"], size["seeds"][0])
    told: dict[str, float] = {}
    for specification in Q4:
        clauses = queries(specification, size["seeds"][0], uneven=0.0)
        macro, one, _ = run_index(adaptive(clauses, size, "macro"), keys)
        hybrid, other, _ = run_index(adaptive(clauses, size, "hybrid"), keys)
        assert one == other
        arrows = hybrid["micro_followed"] + hybrid["macro_followed"]
        point = f"{spread_of(clauses):.3f}"
        told[f"figure_8:micro_ratio@{point}"] = hybrid["micro_followed"] / max(1, arrows)
        told[f"figure_8:relative_cost@{point}"] = hybrid["evaluated"] / macro["evaluated"]
    return told


def figure_9(size: Size) -> dict[str, float]:
    """D1 and D2 in turn: cost a tuple in each part, and rearrangements, against the threshold."""
    clauses, told = queries(Q1, size["seeds"][0]), {}
    for threshold in THRESHOLDS:
        options = {"threshold": threshold, "recompute": size["figure_9_recompute"]}
        index = adaptive(clauses, size, "macro", **options)
        before = 0
        for part, name in enumerate(("D1", "D2", "D1", "D2")):
            counters, _, _ = run_index(index, data(name, size["tuples"], size["seeds"][0]))
            cost = counters["evaluated"] - before
            told[f"figure_9:cost@{threshold},part_{part + 1}"] = cost / size["tuples"]
            before = counters["evaluated"]
        told[f"figure_9:cost@{threshold}"] = before / (4 * size["tuples"])
        told[f"figure_9:rearrangements@{threshold}"] = index.describe()["rearrangements"]
    return told


VARIANTS: dict[str, type[Variant]] = {
    "macro": Macro,
    "hybrid": Hybrid,
    "hybrid_filtering": HybridFiltering,
    "best_fixed": BestFixed,
    "worst_fixed": WorstFixed,
    "ticket": Ticket,
}
COMPARED = tuple(name for name in VARIANTS if name != "best_fixed")


def _runner(name: str) -> Any:
    def make(size: Size) -> Runner:
        return VARIANTS[name](size)

    return make


CASE = Case(
    name="asc_sequences",
    about="constructs evaluated by the macro- and the hybrid-sequence, against fixed sequences",
    sizes={"small": SMALL, "full": FULL},
    variants={name: _runner(name) for name in VARIANTS},
    ratios=tuple(
        Ratio(f"{name}/best_fixed@{point}", of=f"evaluated@{point}", over=name, by="best_fixed")
        for point in POINTS
        for name in COMPARED
    ),
    once=figures,
    env={"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
)
