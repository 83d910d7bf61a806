"""What is used of constraints by default against forced settings, at every point of figures 8 to 16.

Forced: all that holds is used (`worth` = 0), or constraints are off. `memory/best` is what the default holds
over the least that one of these holds, `time/best` its time of the processor over that of the same one;
for the monitored and the exact mode. The default should be within 1.2 and 1.1.

Memory is that of the batches after windows have filled, as in the other cases. Time is that of all batches:
a join finds out at the begin what is worth using, and goes through what it holds now and then, which a
short span may have more or less of.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import k_joins, k_points
from benchmarks.engines import digest
from benchmarks.harness import Case, Figure, Measured, Prepared, Ratios, Size, Variants
from benchmarks.k_joins import MODES, Joined, Maker, Work
from benchmarks.subscribed import ENVIRONMENT

_PART: dict[str, Any] = {"low": 100, "high": 500}
#: Points: the small size has one of each kind.
SMALL: dict[str, Any] = k_points.SMALL | _PART | {"ks": (0, 250), "told": (0,)}
FULL: dict[str, Any] = k_points.FULL | {
    "low": 2_000,
    "high": 10_000,
    "told": (0, 500, 2_000, 5_000, 10_000, 20_000),
}
#: The part of the events after which measuring begins, where k changes.
_WARM_IF_CHANGING = 0.1
#: How often each setting runs, in turn; the shortest time counts.
_ROUNDS = 3
_MODES = {"monitored": MODES["monitored"], "exact": MODES["exact"]}


def points(size: Size) -> dict[str, Maker]:
    """By figure: 8 rids, 10 ca, 12 oap, 14 oac; 9, 11 and 13 where k changes; 15 and 16."""
    found: dict[str, Maker] = {}
    for kind in ("rids", "ca", "oap", "oac"):
        own = k_points.points(size, kind)
        found |= {f"{kind}_{name}": make for name, make in own.items()}
    for name, make in k_points.monitored(size).items():
        found[f"changing_{name}"] = partial(_changing, make=make)
    return found | k_points.combinations({**size, "ks": size["told"]})


def _changing(size: Size, make: Maker) -> Work:
    return make({**size, "warm": _WARM_IF_CHANGING})


class Defaults:
    """The default and the forced settings of one mode at one point, in turn."""

    def __init__(self, size: Size, make: Maker, mode: str, point: str) -> None:
        self._work, self._mode, self._point = make(size), mode, point

    def prepare(self) -> Prepared:
        """A first run compiles."""
        few = replace(self._work, batches=self._work.batches[:3], warm=0)
        for mode in (MODES["swj"], self._mode):
            k_joins.run(few, mode)
        return Prepared()

    def measure(self) -> Measured:
        rounds = [self._runs() for _ in range(_ROUNDS)]
        runs = rounds[0]
        seconds = {name: min(round_[name].all_cpu_seconds for round_ in rounds) for name in runs}
        steady = {name: min(round_[name].cpu_seconds for round_ in rounds) for name in runs}
        own = runs["default"]
        best = min(("all", "off"), key=lambda name: runs[name].state_bytes)
        extra = {f"{name}_bytes": run.state_bytes for name, run in runs.items()}
        extra |= {f"{name}_seconds": took for name, took in seconds.items()}
        extra["memory/best"] = own.state_bytes / runs[best].state_bytes
        extra["time/best"] = seconds["default"] / seconds[best]
        extra["steady_time/best"] = steady["default"] / steady[best]
        # Monitored joins may lose results; exact ones have those of the plain join.
        whole = own if self._mode == MODES["exact"] else runs["off"]
        answer = {self._point: digest(whole.results)}
        return Measured(own.seconds, self._work.measured, answer, round(own.state_bytes), extra)

    def _runs(self) -> dict[str, Joined]:
        """One after the other, so that what else the machine does is the same for all."""
        return {
            "default": k_joins.run(replace(self._work, watching=None), self._mode),
            "all": k_joins.run(replace(self._work, watching={"worth": 0.0}), self._mode),
            "off": k_joins.run(self._work, MODES["swj"]),
        }

    def close(self) -> None:
        pass


def variants(size: Size) -> Variants:
    return {
        f"{name}@{point}": partial(Defaults, make=make, mode=mode, point=point)
        for point, make in points(size).items()
        for name, mode in _MODES.items()
    }


def ratios(size: Size) -> Ratios:
    return tuple(
        Figure(f"{mode}_{what}@{point}", f"{mode}@{point}", what)
        for point in points(size)
        for mode in _MODES
        for what in ("memory/best", "time/best")
    )


CASE = Case(
    name="k_defaults",
    about="constraints by default against forced settings, on figures 8 to 16",
    sizes={"small": SMALL, "full": FULL},
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
