"""Many queries end to end on Spark: prepared queries over quotes, and what they must find.

Answers are how many results there are and a checksum of when they start and end: whatever else
a variant puts out beside these times, a lost, doubled or moved result changes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import selections
from benchmarks.engines import digest
from benchmarks.harness import Size
from benchmarks.on_spark import BraidOnSpark
from benchmarks.workloads import OPENING, SCHEMA, STEP, Ints, Quotes, name_texts


def quotes(size: Size) -> Quotes:
    """A quote a millisecond of names at random; prices from 0 to 1,000, whatever the name."""
    drawn = selections.quotes(size["events"], size["seed"])
    ticks = np.arange(len(drawn), dtype=np.int64)
    return Quotes(OPENING + STEP * ticks, drawn.code, drawn.price, ticks % 1_000)


class ManyRules(BraidOnSpark):
    """Braid with one prepared query and a table of its parameters."""

    def __init__(self, size: Size, text: str, rows: pa.Table, question: str = "all") -> None:
        super().__init__(size, quotes(size))
        self.text, self.rows, self.question = text, rows, question

    def session(self) -> Any:
        import braid

        session = braid.Session(
            self.spark, shards=2, instance_budget=2 * self.size["events"], idle_timeout=None
        )
        session.stream("Stock", self.source(), time="ts")
        session.query("rules", self.text, self.rows, ids="id")
        return session

    def found(self) -> Any:
        table = pq.read_table(self.folder / "found", columns=["start", "end"])
        return {self.question: times_digest(table)}


def times_digest(found: pa.Table) -> tuple[int, int]:
    columns = [
        column.cast(SCHEMA.field("ts").type).cast(pa.int64()).to_numpy() for column in found.columns
    ]
    return digest(np.stack(columns, axis=1))


# ---- selections ----

SELECTION = f"{selections.PREPARED} PUBLISH Found"


def selection_times(size: Size, rules: int) -> tuple[int, int]:
    """What the first rules find: for each quote, how many of its name's floors are below it."""
    data, wanted = quotes(size), selections.rules(rules, size["seed"])
    floors = np.sort(_by_name(wanted.code, wanted.floor))
    below = np.searchsorted(floors, _by_name(data.codes, data.price))
    below -= np.searchsorted(floors, _by_name(data.codes, np.zeros(len(data))))
    times = np.repeat(data.time, below)
    return digest(np.column_stack([times, times]))


def _by_name(code: Ints, price: Any) -> Ints:
    """Names and prices, which are whole cents, as numbers in the order of both."""
    return code * 1_000_000 + np.rint(100 * price).astype(np.int64)


# ---- patterns ----

WITHIN = "10 s"
WITHIN_US = 10_000_000
PATTERN = (
    "CREATE QUERY rules FOR EACH (who STRING, first DOUBLE, second DOUBLE, third DOUBLE) AS"
    " SELECT Name, Price_1_1 AS p1, Price_1 AS p2, Price AS p3"
    " FROM FILTER{Price > :third}(FILTER{Price > :second}("
    "FILTER{Name = :who AND Price > :first}(Stock)"
    f" NEXT{{$2.Name = $1.Name AND DUR <= {WITHIN}}} Stock)"
    f" NEXT{{$2.Name = $1.Name AND DUR <= {WITHIN}}} Stock)"
    " PUBLISH Found"
)


#: How often a quote of its name begins a pattern: about that share of them, by how crowded it is.
BEGUN = {"sparse": 0.01, "dense": 0.2}


def pattern_rules(size: Size, crowd: str) -> tuple[Ints, Any]:
    """Names, and the least prices of three quotes of it in a row (n, 3)."""
    random = np.random.default_rng((size["seed"], 5))
    code = random.integers(0, selections.NAMES, size["rules"])
    holds = random.uniform(0.05, 0.35, (len(code), 3))
    holds[:, 0] *= BEGUN[crowd] / 0.2
    return code, np.round(1_000 * (1 - holds), 2)


def pattern_rows(size: Size, crowd: str) -> pa.Table:
    code, floors = pattern_rules(size, crowd)
    columns = {f: pa.array(floors[:, i]) for i, f in enumerate(("first", "second", "third"))}
    ids = pa.array([f"q{n}" for n in range(len(code))])
    return pa.table(
        {"id": ids, "who": name_texts(selections.NAMES).take(pa.array(code)), **columns}
    )


def pattern_times(size: Size, crowd: str) -> tuple[int, int]:
    """What all patterns find, name by name: three quotes in a row against all rules of the name.

    The newest epoch is held back until time moves on: here that is the last quote.
    """
    data = quotes(size)
    code, floors = pattern_rules(size, crowd)
    rules, seen = _by_code(code), _by_code(data.codes[:-1])
    found = [np.empty((0, 2), np.int64)]
    for name in range(selections.NAMES):
        time_, price, floor = data.time[seen[name]], data.price[seen[name]], floors[rules[name]]
        if not len(floor):
            continue
        runs = np.column_stack([price[:-2], price[1:-1], price[2:]])
        holds = (runs > floor.min(axis=0)).all(axis=1)  # for some rule, perhaps
        at = np.flatnonzero(holds & (time_[2:] - time_[:-2] <= WITHIN_US))
        at = at[np.nonzero((runs[at, None, :] > floor).all(axis=2))[0]]
        found.append(np.column_stack([time_[at], time_[at + 2]]))
    return digest(np.concatenate(found))


def _by_code(codes: Ints) -> list[Ints]:
    """Positions of every name, in order."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(1, selections.NAMES))
    return np.split(order, ends)
