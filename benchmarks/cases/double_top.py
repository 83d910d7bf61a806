"""Double-Top in four formulations over daily closing prices: figure 4.17.

A single query at a time, as there. Prices are also smoothed (each the average of its stock's last so
many), which leaves fewer extrema. The formulations are not equivalent, so each is compared with its own
plain loop, also for flatter tops (B at least 2% above A), of which there are many more than of those
that the figure asks for. Throughput is that of the query as printed, in an engine that begins anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from benchmarks import double_top
from benchmarks.data import real_data
from benchmarks.double_top import ANSWERS, RISE, Closings, Found
from benchmarks.engines import Pass, one_pass, use_one_core
from benchmarks.harness import Case, Measured, Prepared, Ratio, Size, Variants, Worked
from benchmarks.subscribed import ENVIRONMENT

SMALL: dict[str, Any] = {
    "names": 60,
    "days": 500,
    "smoothing": (1, 10),
    "batch": 100,
    "flat": 1.02,
    "seed": 1,
}
FULL: dict[str, Any] = SMALL | {"names": 482, "days": 1_259, "smoothing": (1, 5, 10, 20)}


def seen(size: Size, smoothing: int) -> Closings:
    drawn = double_top.closings(size["names"], size["days"], size["seed"])
    return drawn.smoothed(smoothing) if smoothing > 1 else drawn


def digest(found: Iterable[Found]) -> tuple[int, str]:
    rows = sorted(found)
    return len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()


def question(formulation: str, smoothing: int, rise: float) -> str:
    return f"{formulation}, smoothed over {smoothing}, {rise}"


class Formulation:
    def __init__(self, size: Size, formulation: str, smoothing: int) -> None:
        use_one_core()
        self.size, self.formulation, self.smoothing = size, formulation, smoothing
        batches = seen(size, smoothing).batches(size["batch"], formulation)
        self.batches = [{"Stock": table} for table in batches]

    def run(self, rise: float) -> tuple[Pass, dict[str, Any]]:
        run = one_pass(double_top.statements(self.formulation, rise), self.batches)
        columns = ("name", "price", "start", "end")
        found = [
            row
            for table in run.results.get("doubletop", ())
            for row in zip(*(table[c].to_pylist() for c in columns), strict=True)
        ]
        return run, {question(self.formulation, self.smoothing, rise): digest(found)}

    def prepare(self) -> Prepared:
        """A first run compiles, a second one finds flatter tops."""
        first, _ = self.run(RISE)
        _, self.flat = self.run(self.size["flat"])
        return Prepared(compile_s=first.plan_s + first.seconds)

    def measure(self) -> Measured:
        run, answer = self.run(RISE)
        extra = {"plan_s": run.plan_s, "real_data": float(real_data("stocks") is not None)}
        return Measured(run.seconds, run.events, answer | self.flat, run.state_bytes, extra)

    def close(self) -> None:
        pass


class OneByOne(Worked):
    """All answers, stock by stock without any engine."""

    def __init__(self, size: Size) -> None:
        answers = {}
        for smoothing in size["smoothing"]:
            quotes = seen(size, smoothing)
            for formulation, answer in ANSWERS.items():
                for rise in (RISE, size["flat"]):
                    asked = question(formulation, smoothing, rise)
                    answers[asked] = digest(answer(quotes, rise))
        super().__init__(
            answers, {f"found: {asked}": float(n) for asked, (n, _) in answers.items()}
        )


def name_of(formulation: str, smoothing: int) -> str:
    return formulation if smoothing == 1 else f"{formulation}_smoothed_{smoothing}"


def variants(size: Size) -> Variants:
    made: dict[str, Any] = {"one_by_one": OneByOne}
    for smoothing in size["smoothing"]:
        for formulation in ANSWERS:
            made[name_of(formulation, smoothing)] = partial(
                Formulation, formulation=formulation, smoothing=smoothing
            )
    return made


def ratios(size: Size) -> tuple[Ratio, ...]:
    made = []
    for smoothing in size["smoothing"]:
        point = "" if smoothing == 1 else f"@smoothed_{smoothing}"
        first = name_of("iteration", smoothing)
        for other in ("resubscription", "cql1", "cql2"):
            key = f"iteration/{other}{point}"
            made.append(Ratio(key, "throughput", first, name_of(other, smoothing)))
    return tuple(made)


CASE = Case(
    name="double_top",
    about="Double-Top by iteration, by resubscription and by two sets of relational views",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
