"""The technical benchmark of Cayuga: a stream, five templates of subscriptions, their answers.

The stream S has four discrete attributes d0..d3 and four continuous ones c0..c3, one event a
tick. A subscription has three steps; each step's condition is two equalities and two ranges. One
discrete attribute, the primary one, has the same constant in all three steps. Attributes are
drawn by Zipf's law with the first step's parameter, values and ranges with each step's own.

The patterns are so selective that few of them ever match. So that answers can be compared, the
first `planted` subscriptions are made after events of the stream, which for their part have
runs of equal values planted in the first `planted_ticks`; all others are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.engines import TIME, Feed, Source
from benchmarks.workloads import Floats, Ints, zipf

Mask = npt.NDArray[np.bool_]

ATTRIBUTES = 4  # discrete, and as many continuous
DISCRETE = tuple(f"d{i}" for i in range(ATTRIBUTES))
CONTINUOUS = tuple(f"c{i}" for i in range(ATTRIBUTES))
STEPS = 3
#: Bounds of ranges are written with four digits.
UNIT = 10_000
RISE = 1.01
BLOCK = 10_000

SOURCE = Source(
    "S",
    pa.schema(
        [(name, pa.int64()) for name in DISCRETE]
        + [(name, pa.float64()) for name in CONTINUOUS]
        + [(TIME, pa.int64())]
    ),
)


@dataclass(frozen=True)
class Parameters:
    """Table 4.1."""

    domain: int = 100
    ranges: int = 25
    selectivity: float = 0.7
    zipf: tuple[float, float, float] = (1.0, 1.0, 0.8)
    duration: int = 20
    seed: int = 1
    planted: int = 100
    planted_ticks: int = 2_000

    def bounds(self, number: Ints) -> tuple[Floats, Floats]:
        """The ends of ranges by their number: evenly spread over 0 to 1."""
        low = np.round(number * UNIT * (1 - self.selectivity) / (self.ranges - 1))
        return low / UNIT, (low + round(UNIT * self.selectivity)) / UNIT


# ---- events ----


@dataclass(frozen=True)
class Events:
    discrete: Ints  # (events, 4)
    continuous: Floats  # (events, 4)
    #: Ticks of planted triples and the attribute in which the three events are equal.
    runs: Ints  # (planted, 3)
    run_attribute: Ints  # (planted,)

    def __len__(self) -> int:
        return len(self.discrete)

    def feed(self, batch: int, gap: int) -> Feed:
        columns = {name: self.discrete[:, i].copy() for i, name in enumerate(DISCRETE)}
        columns |= {name: self.continuous[:, i].copy() for i, name in enumerate(CONTINUOUS)}
        columns[TIME] = np.arange(len(self))
        return Feed({"S": columns}, batch, gap)


def events(count: int, parameters: Parameters, *, apart: int = 1) -> Events:
    """Uniform events; planted triples are up to `apart` ticks from one to the next.

    The first ones are the same whatever the count.
    """
    random = np.random.default_rng((parameters.seed, 0))
    planted, ticks = parameters.planted, parameters.planted_ticks
    starts = np.linspace(0, ticks - 2 * apart - 1, planted).astype(np.int64)
    steps = random.integers(1, apart + 1, (planted, STEPS - 1))
    runs = np.column_stack([starts, starts + steps[:, 0], starts + steps.sum(axis=1)])
    attribute = random.integers(0, ATTRIBUTES, planted)
    value = random.integers(0, parameters.domain, planted)
    values = random.random((count, 2 * ATTRIBUTES))
    discrete = (values[:, :ATTRIBUTES] * parameters.domain).astype(np.int64)
    for step in range(STEPS):
        discrete[runs[:, step], attribute] = value
    return Events(discrete, values[:, ATTRIBUTES:].copy(), runs, attribute)


# ---- subscriptions ----


@dataclass(frozen=True)
class Step:
    """The condition of one step, for many subscriptions: attributes in order, (n, 2) each."""

    equal: Ints
    value: Ints
    range: Ints
    number: Ints


@dataclass(frozen=True)
class Subscriptions:
    primary: Ints
    value: Ints
    #: The continuous attribute that is to rise from step to step, in LinearDyn.
    rising: Ints
    steps: tuple[Step, ...]

    def __len__(self) -> int:
        return len(self.primary)


def subscriptions(block: int, parameters: Parameters, seen: Events) -> Subscriptions:
    """`BLOCK` subscriptions; blocks are made one by one, so that every set begins alike."""
    random = np.random.default_rng((parameters.seed, 1, block))
    first = parameters.zipf[0]
    primary = zipf(random, BLOCK, ATTRIBUTES, first)
    value = zipf(random, BLOCK, parameters.domain, first)
    rising = zipf(random, BLOCK, ATTRIBUTES, first)
    drawn = [_step(random, primary, value, parameters, exponent) for exponent in parameters.zipf]
    if block == 0:
        _plant(primary, value, drawn, parameters, seen)
    return Subscriptions(primary, value, rising, tuple(_in_order(step) for step in drawn))


def _step(
    random: np.random.Generator, primary: Ints, value: Ints, parameters: Parameters, exponent: float
) -> Step:
    """The primary attribute and another one; two continuous attributes."""
    count, by_attribute = len(primary), parameters.zipf[0]
    other = _other(random, primary, by_attribute)
    others = zipf(random, count, parameters.domain, exponent)
    one = zipf(random, count, ATTRIBUTES, by_attribute)
    two = _other(random, one, by_attribute)
    return Step(
        np.column_stack([primary, other]),
        np.column_stack([value, others]),
        np.column_stack([one, two]),
        zipf(random, 2 * count, parameters.ranges, exponent).reshape(count, 2),
    )


def _other(random: np.random.Generator, taken: Ints, exponent: float) -> Ints:
    """An attribute beside the one taken: drawn again where it is the same."""
    drawn = zipf(random, len(taken), ATTRIBUTES, exponent)
    while (same := np.flatnonzero(drawn == taken)).size:
        drawn[same] = zipf(random, len(same), ATTRIBUTES, exponent)
    return drawn


def _plant(
    primary: Ints, value: Ints, steps: list[Step], parameters: Parameters, seen: Events
) -> None:
    """Make the first subscriptions hold for the planted events."""
    rows = np.arange(parameters.planted)
    primary[rows] = seen.run_attribute
    value[rows] = seen.discrete[seen.runs[:, 0], seen.run_attribute]
    for step, ticks in zip(steps, seen.runs.T, strict=True):
        other = np.where(step.equal[rows, 1] == primary[rows], 1, 0)
        step.equal[rows, 1] = (step.equal[rows, 1] + other) % ATTRIBUTES
        step.equal[rows, 0] = primary[rows]
        for side in range(2):
            step.value[rows, side] = seen.discrete[ticks, step.equal[rows, side]]
            held = seen.continuous[ticks, step.range[rows, side]]
            step.number[rows, side] = _covering(held, parameters)


def _covering(values: Floats, parameters: Parameters) -> Ints:
    """The first range with each value in it."""
    low, high = parameters.bounds(np.arange(parameters.ranges))
    covers = (low <= values[:, None]) & (values[:, None] <= high)
    return np.argmax(covers, axis=1)


def _in_order(step: Step) -> Step:
    """By attribute, so that equal conditions are equal texts."""
    equal, ranges = np.argsort(step.equal, axis=1), np.argsort(step.range, axis=1)
    return Step(
        np.take_along_axis(step.equal, equal, 1),
        np.take_along_axis(step.value, equal, 1),
        np.take_along_axis(step.range, ranges, 1),
        np.take_along_axis(step.number, ranges, 1),
    )


# ---- texts ----

_ALL = ", ".join(DISCRETE + CONTINUOUS)
_FIRST = ", ".join(f"{name}_1 AS first_{name}" for name in DISCRETE + CONTINUOUS)
_STARTED = ", ".join(f"{name} AS sum_{name}" for name in CONTINUOUS)
_SUMMED = ", ".join(f"$.sum_{name} + $2.{name} AS sum_{name}" for name in CONTINUOUS)
_SUMS = ", ".join(f"sum_{name}" for name in CONTINUOUS)

#: By template, what takes the three conditions (one, two, three), the primary predicate (p),
#: the duration (w) and the attribute that rises (r).
TEMPLATES = {
    "linear_stat": (
        "SELECT * FROM FILTER{{{three}}}(FILTER{{{two}}}(FILTER{{{one}}}(S) NEXT S) NEXT S)"
    ),
    "linear_dyn": (
        f"SELECT * FROM FILTER{{{{{{three}} AND {{r}} > {RISE} * {{r}}_1}}}}("
        f"FILTER{{{{{{two}} AND {{r}} > {RISE} * {{r}}_1}}}}(FILTER{{{{{{one}}}}}}(S) NEXT S) NEXT S)"
    ),
    "filter": (
        "SELECT * FROM FILTER{{{three}}}(FILTER{{{two}}}(FILTER{{{one}}}(S)"
        " NEXT{{DUR <= {w} AND $2.{p}}} S) NEXT{{DUR <= {w} AND $2.{p}}} S)"
    ),
    "nondeterministic": (
        f"SELECT * FROM FILTER{{{{{{three}}}}}}((SELECT {_ALL}, {_FIRST}"
        " FROM FILTER{{{two}}}(FILTER{{{one}}}(S)"
        " FOLD{{DUR <= {w} AND $2.{p}, , }} S)) FOLD{{DUR <= {w} AND $2.{p}, , }} S)"
    ),
    "nondeterministic_agg": (
        f"SELECT * FROM FILTER{{{{{{three}}}}}}((SELECT {_ALL}, {_SUMS}, {_FIRST}"
        f" FROM FILTER{{{{{{two}}}}}}((SELECT *, {_STARTED} FROM FILTER{{{{{{one}}}}}}(S))"
        f" FOLD{{{{DUR <= {{w}} AND $2.{{p}}, , {_SUMMED}}}}} S))"
        f" FOLD{{{{DUR <= {{w}} AND $2.{{p}}, , {_SUMMED}}}}} S)"
    ),
}


class Texts:
    """The texts of a template's subscriptions, a block at a time."""

    def __init__(self, template: str, parameters: Parameters, seen: Events) -> None:
        self.template = TEMPLATES[template]
        self.parameters = parameters
        self.seen = seen

    def queries(self, count: int) -> Iterator[tuple[str, str]]:
        """Ids and texts."""
        for block in range(-(-count // BLOCK)):
            first = block * BLOCK
            numbers = range(first, min(count, first + BLOCK))
            yield from zip((f"q{n}" for n in numbers), self.block(block), strict=False)

    def block(self, block: int) -> Iterator[str]:
        drawn = subscriptions(block, self.parameters, self.seen)
        conditions = [self._conditions(step) for step in drawn.steps]
        primaries = (drawn.primary * self.parameters.domain + drawn.value).tolist()
        equalities, duration = self._equalities, self.parameters.duration
        write = self.template.format
        for one, two, three, primary, rising in zip(
            *conditions, primaries, drawn.rising.tolist(), strict=True
        ):
            yield write(
                one=one, two=two, three=three, p=equalities[primary], w=duration, r=f"c{rising}"
            )

    def _conditions(self, step: Step) -> list[str]:
        equalities, ranges = self._equalities, self._ranges
        equal = (step.equal * self.parameters.domain + step.value).tolist()
        within = (step.range * self.parameters.ranges + step.number).tolist()
        return [
            f"{equalities[a]} AND {equalities[b]} AND {ranges[c]} AND {ranges[d]}"
            for (a, b), (c, d) in zip(equal, within, strict=True)
        ]

    @cached_property
    def _equalities(self) -> list[str]:
        return [f"{name} = {v}" for name in DISCRETE for v in range(self.parameters.domain)]

    @cached_property
    def _ranges(self) -> list[str]:
        low, high = self.parameters.bounds(np.arange(self.parameters.ranges))
        return [
            f"{name} BETWEEN {a} AND {b}"
            for name in CONTINUOUS
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
