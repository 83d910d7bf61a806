"""Selection-join queries (003): figures 8 to 13, for each form and index.

`own`, `pdfa` and `naive` are forms of one m-op in the same engine, forced. Tuples come in batches, so that
what is compared is the filtering and not the engine around it; `response` is the time of one tuple that
comes by itself, as 003 measures it, with results made. Windows are full when measuring begins.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.engines import Standing, digest, label, use_one_core
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants, Worked
from benchmarks.selection_joins import Workload
from benchmarks.subscribed import ENVIRONMENT

FORMS = ("own", "pdfa_rtree", "pdfa_grid", "naive_rtree", "naive_grid")
INDEXES = ("rtree", "grid")

#: By figure: what is changed, and to what. `queries`: of all but figure 8.
SMALL: dict[str, Any] = {
    "points": (1_000, 5_000),
    "base": 5_000,
    "growth": ((1_000, 5_000),),
    "figures": {"streams=3": {"dimensions": (5,) * 3}},
    "figure_forms": ("own", "naive_grid"),
    "queries": 500,
    "ticks": {"own": 200, "pdfa": 200, "naive": 50},
    "checked": 100,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {
    "points": (50_000, 100_000, 500_000),
    "base": 100_000,
    "growth": ((50_000, 500_000),),
    "figures": {
        "dimensions=3": {"dimensions": (3, 3)},
        "dimensions=17": {"dimensions": (17, 17)},
        "selectivity=0.001%": {"selectivity": 0.00001},
        "selectivity=0.1%": {"selectivity": 0.001},
        "results=1": {"per_probe": 1},
        "results=5": {"per_probe": 5},
        "streams=4": {"dimensions": (5,) * 4, "per_probe": 2},
        "streams=6": {"dimensions": (5,) * 6, "per_probe": 2},
        "ratio=2:10": {"dimensions": (2, 10)},
        "ratio=6:6": {"dimensions": (6, 6)},
        "ratio=10:2": {"dimensions": (10, 2)},
    },
    "figure_forms": FORMS,
    "queries": 20_000,
    "ticks": {"own": 1_000, "pdfa": 500, "naive": 100},
}


def workload_of(size: Size, queries: int, changed: dict[str, Any] | None = None) -> Workload:
    return Workload(queries, seed=size["seed"], **(changed or {}))


def ticks_of(size: Size, form: str) -> int:
    """How many tuples are measured: fewer where each takes long."""
    ticks: int = size["ticks"][form.split("_")[0]]
    return ticks


class Joined:
    """One form over one workload; `alone`: tuples come one at a time."""

    def __init__(self, size: Size, workload: Workload, form: str, *, alone: bool = False) -> None:
        use_one_core()
        self.size, self.workload, self.alone = size, workload, alone
        self.filled, self.ticks = workload.window, ticks_of(size, form)
        self.tuples = workload.tuples(self.filled + self.ticks)
        self.standing = Standing(workload.sources, selection_join=form)
        self.offset = 0

    def prepare(self) -> Prepared:
        workload = self.workload
        register_s = self.standing.register_rows("q", workload.text, workload.rows())
        started = time.perf_counter()
        self.standing.process(workload.tables(self.tuples, 0, self.filled, self.offset))
        return Prepared(time.perf_counter() - started, register_s)

    def measure(self) -> Measured:
        workload, first, last = self.workload, self.filled, self.filled + self.ticks
        self.offset += 10 * last
        self.standing.process(workload.tables(self.tuples, 0, first, self.offset))
        step = 1 if self.alone else self.ticks
        seconds, matches, found = 0.0, 0, []
        for tick in range(first, last, step):
            tables = workload.tables(self.tuples, tick, min(last, tick + step), self.offset)
            seconds += self.standing.process(tables)
            matches += self.standing.matches
            found.append(self._found())
        state = int(self.standing.engine.stats["state_bytes"])
        self.standing.process(self._end())
        rows = np.concatenate([*found, self._found()])
        matches += self.standing.matches
        kept = rows[(rows[:, 1] >= first) & (rows[:, 1] < last)]
        asked = f"{workload.name}, {self.ticks} ticks"
        answer = {f"first: {asked}": digest(kept), f"all: {asked}": matches}
        return Measured(seconds, self.ticks, answer, state, {"matches": matches})

    def _end(self) -> dict[str, pa.Table]:
        """Tuples so late that windows are empty, and that nobody wants."""
        at = self.offset + 5 * (self.filled + self.ticks)
        found = {}
        for source in self.workload.sources:
            columns = {f.name: [at if f.name == "t" else -(2**40)] for f in source.schema}
            found[source.name] = pa.table(columns, schema=source.schema)
        return found

    def _found(self) -> np.ndarray:
        """What the last batch had for the checked queries: query, instant, ids."""
        ids = pa.array([f"q/{n}" for n in range(self.size["checked"])], pa.string())
        parts = [np.empty((0, 2 + self.workload.streams), np.int64)]
        for group in (part for g in self.standing.engine._emission.groups for part in g.parts()):
            position = pc.index_in(group.queries, ids).fill_null(-1).to_numpy()[group.query]
            kept = np.flatnonzero(position >= 0)
            table = group.table.take(pa.array(group.rows[kept], pa.int64()))
            at = np.asarray(table.column("end").combine_chunks()).astype(np.int64) - self.offset
            columns = [np.asarray(table.column(f"id{s}")) for s in range(self.workload.streams)]
            parts.append(np.stack([position[kept], at, *columns], axis=1))
        return np.concatenate(parts)

    def close(self) -> None:
        pass


def worked(size: Size) -> Worked:
    """The first queries of each workload, without any engine."""
    answers, counts = {}, {}
    for workload in dict.fromkeys(workload for workload, _ in points(size).values()):
        tuples = workload.tuples(workload.window + max(size["ticks"].values()))
        for ticks in dict.fromkeys(size["ticks"].values()):
            last = workload.window + ticks
            rows = workload.expected(tuples[:last], size["checked"], (workload.window, last))
            asked = f"{workload.name}, {ticks} ticks"
            answers[f"first: {asked}"] = digest(rows)
            counts[f"found: {asked}"] = float(len(rows))
    return Worked(answers, counts)


def points(size: Size) -> dict[str, tuple[Workload, tuple[str, ...]]]:
    """What is measured in batches: the workload of each point, and its forms."""
    # Naive filtering of the largest sets takes longer than it tells.
    forms: dict[int, tuple[str, ...]] = dict.fromkeys(size["points"], ("own",))
    forms |= {max(size["points"]): ("own", "pdfa_rtree", "pdfa_grid"), size["base"]: FORMS}
    found = {label(count): (workload_of(size, count), forms[count]) for count in size["points"]}
    for name, changed in size["figures"].items():
        workload = workload_of(size, size["queries"], changed)
        found[name] = (workload, size["figure_forms"])
    return found


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"one_by_one": worked}
    for point, (workload, forms) in points(size).items():
        for form in forms:
            made[f"{form}@{point}"] = partial(Joined, workload=workload, form=form)
    for count in dict.fromkeys(count for pair in size["growth"] for count in pair):
        made[f"response@{label(count)}"] = partial(
            Joined, workload=workload_of(size, count), form="own", alone=True
        )
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    found = []
    for few, many in (map(label, pair) for pair in size["growth"]):
        found += [
            Ratio(f"time_{many}/time_{few}", "time", f"response@{many}", f"response@{few}"),
            Ratio(f"batch_time_{many}/time_{few}", "time", f"own@{many}", f"own@{few}"),
        ]
    for point, (_, forms) in points(size).items():
        for index in INDEXES:
            pdfa, naive = f"pdfa_{index}", f"naive_{index}"
            pairs = (("pdfa/naive", pdfa, naive), ("own/pdfa", "own", pdfa))
            for key, over, by in pairs:
                if over in forms and by in forms:
                    name = f"{key}_{index}@{point}"
                    found.append(Ratio(name, "throughput", f"{over}@{point}", f"{by}@{point}"))
    return tuple(found)


CASE = Case(
    name="selection_join",
    about="selection-join queries by the hundred thousand: forms and indexes over 003's figures 8 to 13",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    env=ENVIRONMENT,
)
