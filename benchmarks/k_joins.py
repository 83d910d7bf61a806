"""Joins over streams with constraints: the queries of figure 7, and how they are run and compared.

Three variants of each: `swj` is the plain sliding-window join (constraints off), `exact` and
`monitored` are the modes of constraints. What is held is counted by the engine after each batch,
and averaged over the batches after windows have filled; seconds are those of the same batches.

`swj` and `exact` must give the same results. Of `monitored` it is counted which part is missing;
a result that the others do not have fails the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.engines import TIME, digest, use_one_core
from benchmarks.harness import Figure, Measured, Prepared, Ratio, Ratios, Size, Variants

Ints = npt.NDArray[np.int64]
Batch = Mapping[str, pa.Table]

SWJ, EXACT, MONITORED = "swj", "exact", "monitored"
MODES = {SWJ: "off", EXACT: "exact", MONITORED: "monitored"}
OUTPUT = "Out"
#: Queries of these workloads are to run to the end, whatever they hold.
_BUDGET = 50_000_000

#: By join graph: its streams with their attributes, what is shown, what is asked.
GRAPHS: dict[str, tuple[dict[str, tuple[str, ...]], str, str]] = {
    "a": (
        {"S1": ("a", "b", "v"), "S2": ("a", "f"), "S3": ("b", "f")},
        "S1.v, S2.a, S3.b",
        "S1.a = S2.a And S1.b = S3.b And S2.f < {selectivity} And S3.f < {selectivity}",
    ),
    "b": (
        {"S1": ("a", "v"), "S2": ("a", "v"), "S3": ("a", "f")},
        "S1.v, S2.v As w, S3.a",
        "S1.a = S3.a And S2.a = S3.a And S3.f < {selectivity}",
    ),
    "c": (
        {"S1": ("a", "v"), "S2": ("a", "f")},
        "S1.v, S2.a",
        "S1.a = S2.a And S2.f < {selectivity}",
    ),
}


@dataclass(frozen=True)
class Work:
    """A text of statements, and the batches of events that its queries see.

    `warm`: how many batches pass before anything is measured. `blocks`: which batches belong to
    which part of the stream, where k differs. `query`: the one whose joins and results count.
    `truth`: which constraint holds, of which input, and its k in each batch, where k changes.
    """

    statements: str
    batches: Sequence[Batch]
    warm: int
    blocks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    query: str = "joined"
    truth: tuple[tuple[str, int], Sequence[int]] | None = None
    #: How joins watch, where that is not as usual.
    watching: Mapping[str, float] | None = None

    @property
    def measured(self) -> int:
        return sum(t.num_rows for batch in self.batches[self.warm :] for t in batch.values())


def statements(
    graph: str,
    rows: int,
    rates: Mapping[str, float],
    *,
    selectivity: int = 50,
    constraints: Iterable[str] = (),
) -> str:
    """The query of a join graph over windows that hold so many events of each stream.

    Windows are by time, so that a join can have them inside: with one event a tick, so many
    events of a stream take as many ticks as they are of all events. `rates`: the share of each.
    """
    streams, shown, asked = GRAPHS[graph]
    declared = [
        f"CREATE STREAM {name} ({', '.join(f'{a} BIGINT' for a in names)}, {TIME} BIGINT)"
        f" TIME {TIME};"
        for name, names in streams.items()
    ]
    inputs = ", ".join(f"{name} [Range {round(rows / rates[name])}]" for name in streams)
    where = asked.format(selectivity=selectivity)
    query = f"Select {shown} From {inputs} Where {where} Publish {OUTPUT}"
    return "\n".join([*declared, *constraints, f"CREATE QUERY joined AS {query};"])


# --- one run ---


@dataclass(frozen=True)
class Joined:
    """A run: what its joins held on average, and all its m-ops; how long the measured batches took,
    and the joins of it; results by batch."""

    seconds: float
    join_seconds: float
    state_bytes: float
    total_bytes: float
    peak_bytes: int
    plan_s: float
    found: Sequence[Ints]
    #: What joins held after each batch, and what they told of the constraints they had found.
    curve: Sequence[int] = ()
    #: Time of the processor in the measured batches: what others do meanwhile does not count.
    cpu_seconds: float = 0.0
    told: Sequence[Mapping[str, Any]] = ()
    #: The same of all batches: with what it takes to find out what is worth using, and to begin.
    all_cpu_seconds: float = 0.0

    @property
    def results(self) -> Ints:
        some = [rows for rows in self.found if len(rows)]
        return np.concatenate(some) if some else np.empty((0, 0), np.int64)


def _undeclared(text: str) -> str:
    """The plain join is measured without what is declared: that is watched in any mode."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith("CREATE CONSTRAINT"))


def run(work: Work, mode: str) -> Joined:
    """One engine from the beginning of the streams to their end."""
    import braid

    options: Any = {"constraints": mode, "spill_above": 0, "watching": work.watching}
    engine: Any = braid.Engine(instance_budget=_BUDGET, idle_timeout=None, **options)
    started = time.perf_counter()
    engine.execute(_undeclared(work.statements) if mode == MODES[SWJ] else work.statements)
    engine.process({stream: table.slice(0, 0) for stream, table in work.batches[0].items()})
    plan_s = time.perf_counter() - started
    joins = _joins(engine, work.query)
    clock = _Clock(joins)
    seconds, cpu, held, total, found, told = 0.0, 0.0, [], [], [], []
    all_cpu = 0.0
    for number, batch in enumerate(work.batches):
        if number == work.warm:
            clock.seconds = 0.0
        started, used = time.perf_counter(), time.process_time()
        engine.process(batch)
        used = time.process_time() - used
        all_cpu += used
        if number >= work.warm:
            seconds += time.perf_counter() - started
            cpu += used
            total.append(int(engine.stats["state_bytes"]))
        held.append(sum(join.state_bytes for join in joins))
        found.append(_rows(engine, work.query))
        told.append(_told(joins))
    join_seconds = clock.seconds
    engine.finish()
    found.append(_rows(engine, work.query))
    steady, whole = held[work.warm :], float(np.mean(total))
    own = (seconds, join_seconds)
    steadily = (float(np.mean(steady)), whole, max(steady))
    return Joined(*own, *steadily, plan_s, found, held, cpu, told, all_cpu)


class _Clock:
    """How long joins have taken for their batches."""

    def __init__(self, joins: Iterable[Any]) -> None:
        self.seconds = 0.0
        for join in joins:
            join.on_batch = self._timed(join.on_batch)

    def _timed(self, on_batch: Callable[..., Any]) -> Callable[..., Any]:
        def timed(inputs: Any, bound: int) -> Any:
            started = time.perf_counter()
            found = on_batch(inputs, bound)
            self.seconds += time.perf_counter() - started
            return found

        return timed


def _told(joins: Iterable[Any]) -> dict[str, Any]:
    """Each k that joins have found, by kind and the input whose events it is about, and how much
    they have put aside. Of references, those that the first input waits for count."""
    ks: dict[tuple[str, int], int] = {}
    aside = 0
    for shown in (join.describe() for join in joins):
        aside += shown.get("file_bytes", 0)
        for one in shown.get("constraints", ()):
            if one["k"] is not None and one.get("waiting", 0) == 0:
                ks[one["kind"], one["input"]] = one["k"]
    return {"k": ks, "file_bytes": aside}


def _joins(engine: Any, query: str) -> list[Any]:
    """The joins that a query goes through, whatever m-ops they are."""
    from braid.operators.registry import REGISTRY

    executor = engine._running().executor
    (number,) = executor.registry.numbers_of(query)
    stages = executor.registry.of(number).route.stages
    mops = dict.fromkeys(stage.mop for stage in stages if "join" in REGISTRY.name_of(stage.spec))
    return [executor.logics[mop] for mop in mops]


def _rows(engine: Any, query: str) -> Ints:
    """The results that a query had by the last call, as rows of words."""
    results = engine.results.items()
    tables = [table for (of, _), table in results if of == query and table.num_rows]
    if not tables:
        return np.empty((0, 0), np.int64)
    table = pa.concat_tables(tables)
    columns = [c.combine_chunks().to_numpy(zero_copy_only=False) for c in table.columns]
    return np.stack([column.view(np.int64) for column in columns], axis=1)


def missing(found: Ints, expected: Ints) -> float:
    """Which part of the expected results was not found; what was found must be among them."""
    if not len(expected):
        return 0.0
    theirs, ours = _sorted(expected), _sorted(found) if len(found) else found
    if len(ours) and not _is_part(ours, theirs):
        raise AssertionError("a result was found that the plain join does not have")
    return 1.0 - len(ours) / len(theirs)


def _sorted(rows: Ints) -> list[bytes]:
    return sorted(row.tobytes() for row in np.ascontiguousarray(rows))


def _is_part(ours: list[bytes], theirs: list[bytes]) -> bool:
    at = iter(theirs)
    return all(any(row == other for other in at) for row in ours)


# --- variants of a case ---

#: Makes the work of a point of a case.
Maker = Callable[[Size], Work]


class KJoin:
    """One mode at one point. The processes of a case are one, so work that was made is kept."""

    def __init__(self, size: Size, make: Maker, mode: str, point: str) -> None:
        use_one_core()
        self.mode, self.point = mode, point
        self.work = make(size)
        self.expected: list[Ints] | None = None
        if mode == MONITORED:
            self.expected = list(run(self.work, MODES[SWJ]).found)

    def prepare(self) -> Prepared:
        """A first run compiles."""
        started = time.perf_counter()
        first = run(self._first(), MODES[self.mode])
        return Prepared(compile_s=time.perf_counter() - started - first.seconds)

    def _first(self) -> Work:
        few = self.work.batches[:3]
        return Work(
            self.work.statements, few, 0, query=self.work.query, watching=self.work.watching
        )

    def measure(self) -> Measured:
        found = run(self.work, MODES[self.mode])
        extra = {"peak_bytes": float(found.peak_bytes), "plan_s": found.plan_s}
        extra["total_bytes"] = found.total_bytes
        extra["join_seconds"] = found.join_seconds
        extra["file_bytes"] = float(max(told["file_bytes"] for told in found.told))
        extra |= _curve(found.curve) | self._tracked(found)
        answer = None
        if self.expected is None:
            answer = {self.point: digest(found.results)}
        else:
            extra |= self._missing(found.found)
        events = self.work.measured
        return Measured(found.seconds, events, answer, round(found.state_bytes), extra)

    def _missing(self, found: Sequence[Ints]) -> dict[str, float]:
        """The part that is missing of all results, and of those of each block."""
        assert self.expected is not None
        parts = {"false_negatives": range(len(self.expected)), **self.work.blocks}
        return {name: _part_missing(found, self.expected, at) for name, at in parts.items()}

    def _tracked(self, found: Joined) -> dict[str, float]:
        """In which part of the batches a k was in force, and what it was of the true one."""
        if self.work.truth is None:
            return {}
        which, true = self.work.truth
        pairs = [(told["k"].get(which), k) for told, k in zip(found.told, true, strict=True)]
        known = [k / max(truth, 1) for k, truth in pairs if k is not None]
        median = float(np.median(known)) if known else 0.0
        return {"k_in_force": len(known) / len(pairs), "k_found": median}

    def close(self) -> None:
        pass


def _curve(held: Sequence[int]) -> dict[str, float]:
    """What is held after each quarter of the batches: the figures' curves."""
    last = len(held) - 1
    return {f"bytes_after_{part}%": float(held[last * part // 100]) for part in (25, 50, 75, 100)}


def _part_missing(found: Sequence[Ints], expected: Sequence[Ints], batches: Iterable[int]) -> float:
    chosen = list(batches)
    ours = [found[n] for n in chosen if len(found[n])]
    theirs = [expected[n] for n in chosen if len(expected[n])]
    if not theirs:
        return 0.0
    none = theirs[0][:0]
    return missing(np.concatenate([none, *ours]), np.concatenate(theirs))


def variants(points: Mapping[str, Maker], modes: Iterable[str] = MODES) -> Variants:
    """All modes at all points; those of a point beside each other."""
    return {
        f"{mode}@{point}": partial(KJoin, make=make, mode=mode, point=point)
        for point, make in points.items()
        for mode in modes
    }


def ratios(points: Iterable[str], main: str | None = None, seconds: str = "time") -> Ratios:
    """Memory and time of the monitored mode against the plain join, those of the exact one apart.

    `main`: the point whose ratios are also given without one. `seconds`: what time is meant, that of
    all that happens or that of the joins.
    """
    found: list[Ratio | Figure] = []
    for at, point in [*(("", main) for _ in (0,) if main), *((f"@{p}", p) for p in points)]:
        swj, exact, monitored = (f"{mode}@{point}" for mode in MODES)
        found += [
            Ratio(f"memory/swj{at}", "memory", monitored, swj),
            Ratio(f"time/swj{at}", seconds, monitored, swj),
            Ratio(f"exact_memory/swj{at}", "memory", exact, swj),
            Ratio(f"exact_time/swj{at}", seconds, exact, swj),
            Figure(f"false_negatives{at}", monitored, "false_negatives"),
        ]
    return tuple(found)
