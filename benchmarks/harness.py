"""Runs the variants of a case in turn, several rounds, and says what came out.

A figure is a ratio of two things measured in the same run: variants alternate (a b a b a b), so
that a machine that slows down slows both. Each round gives a ratio; the median is reported with
the smallest and the largest. Compile and registration time are measured apart, when a variant
is prepared, and are no part of a round.

Variants of a case run in processes of their own (unless it shares one), one at a time, so that
peak memory is the variant's own and no variant warms the caches of another.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import statistics
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from benchmarks.memory import peak_rss

Size = Mapping[str, Any]


@dataclass(frozen=True)
class Prepared:
    """What getting ready took; not part of any round."""

    compile_s: float = 0.0
    register_s: float = 0.0


@dataclass(frozen=True)
class Measured:
    """One round. `answer` is compared over all variants; None says that there is none to compare.

    Variants that answer several questions, not all of them the same, give a mapping from question
    to answer: each question is compared over those that answer it.
    """

    seconds: float
    events: int
    answer: Any = None
    state_bytes: int = 0
    extra: Mapping[str, float] = field(default_factory=dict)


class Runner(Protocol):
    """One variant in its process: made from the size, prepared once, measured several times."""

    def prepare(self) -> Prepared: ...

    def measure(self) -> Measured: ...

    def close(self) -> None: ...


class Worked:
    """A variant that only says what the others must find, worked out without any engine."""

    def __init__(self, answer: Any, extra: Mapping[str, float] | None = None) -> None:
        self.answer = answer
        self.extra = dict(extra or {})

    def prepare(self) -> Prepared:
        return Prepared()

    def measure(self) -> Measured:
        return Measured(1.0, 1, self.answer, extra=self.extra)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Ratio:
    """`key` is `a/b` as docs name it; the value is `of(a) / of(b)` in one round.

    `time` divides seconds per event, `throughput` events per second, `memory` state bytes;
    anything else is the name of an `extra` that both variants report.
    """

    key: str
    of: str
    over: str
    by: str

    def value(self, over: Measured, by: Measured) -> float:
        if self.of == "throughput":
            return (over.events / over.seconds) / (by.events / by.seconds)
        if self.of == "memory":
            return over.state_bytes / by.state_bytes
        if self.of == "time":
            return (over.seconds / over.events) / (by.seconds / by.events)
        return over.extra[self.of] / by.extra[self.of]

    def values(self, measured: Mapping[str, list[Measured]]) -> list[float]:
        pairs = zip(measured[self.over], measured[self.by], strict=True)
        return [self.value(over, by) for over, by in pairs]


@dataclass(frozen=True)
class Figure:
    """What has nothing to be compared with: an `extra` of one variant as it was measured."""

    key: str
    variant: str
    extra: str

    def values(self, measured: Mapping[str, list[Measured]]) -> list[float]:
        return [m.extra[self.extra] for m in measured[self.variant]]


Variants = Mapping[str, Callable[[Size], Runner]]
Ratios = tuple[Ratio | Figure, ...]


@dataclass(frozen=True)
class Case:
    """A benchmark described by data.

    Where the points that are measured depend on the size, variants and ratios are functions of it:
    a ratio is named after the points that it was taken at.
    """

    name: str
    about: str
    sizes: Mapping[str, Size]
    variants: Variants | Callable[[Size], Variants]
    ratios: Ratios | Callable[[Size], Ratios]
    shares_process: bool = False
    #: Measured once, in processes of its own: import time, first compile and the like.
    once: Callable[[Size], Mapping[str, float]] | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def variants_at(self, size: str) -> Variants:
        return self.variants(self.sizes[size]) if callable(self.variants) else self.variants

    def ratios_at(self, size: str) -> Ratios:
        return self.ratios(self.sizes[size]) if callable(self.ratios) else self.ratios


@dataclass
class VariantResult:
    name: str
    seconds: list[float]
    events: int
    events_per_s: float
    state_bytes: int
    compile_s: float
    register_s: float
    peak_rss: int
    extra: dict[str, float]


@dataclass
class CaseResult:
    case: str
    size: str
    machine: dict[str, Any]
    answers_agree: bool
    variants: list[VariantResult]
    ratios: dict[str, float]
    spread: dict[str, tuple[float, float]]
    once: dict[str, float]

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


class BenchmarkFailed(Exception):
    """A variant raised; the text is its traceback."""


def run_case(
    case: Case,
    size: str,
    *,
    rounds: int = 3,
    report: Callable[[str], None] = lambda _: None,
    together: bool = False,
    here: bool = False,
) -> CaseResult:
    """All variants of a case, alternating, at least three rounds unless told otherwise.

    `together`: in one process whatever the case says, for runs that ask for answers, not for
    figures. `here`: in this one, which may have a Spark that is warm already.
    """
    once = {}
    if case.once is not None:
        report("measuring what is measured once")
        once = dict(case.once(case.sizes[size]))
    names = list(case.variants_at(size))
    homes = [names] if case.shares_process or together or here else [[name] for name in names]
    workers: dict[str, _Worker | _Here] = {}
    try:
        for home in homes:
            worker = _Here(case, size) if here else _Worker(case, size, home)
            workers.update(dict.fromkeys(home, worker))
        prepared = {}
        for name in names:
            report(f"preparing {name}")
            prepared[name] = workers[name].ask("prepare", name)
        measured: dict[str, list[Measured]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names:
                report(f"round {turn + 1} of {rounds}: {name}")
                measured[name].append(workers[name].ask("measure", name))
        peaks = {name: workers[name].ask("peak", name) for name in names}
    finally:
        for worker in set(workers.values()):
            worker.close()
    variants = [_variant(n, prepared[n], measured[n], peaks[n]) for n in names]
    ratios, spread = _ratios(case.ratios_at(size), measured)
    agree = _answers_agree([[m.answer for m in measured[name]] for name in names])
    return CaseResult(case.name, size, machine(), agree, variants, ratios, spread, once)


def _variant(name: str, prepared: Prepared, rounds: list[Measured], peak: int) -> VariantResult:
    seconds = [m.seconds for m in rounds]
    events = rounds[0].events
    keys = dict.fromkeys(key for m in rounds for key in m.extra)
    return VariantResult(
        name=name,
        seconds=seconds,
        events=events,
        events_per_s=events / statistics.median(seconds),
        state_bytes=max(m.state_bytes for m in rounds),
        compile_s=prepared.compile_s,
        register_s=prepared.register_s,
        peak_rss=peak,
        extra={k: statistics.median(m.extra[k] for m in rounds if k in m.extra) for k in keys},
    )


def _ratios(
    wanted: Ratios, measured: Mapping[str, list[Measured]]
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    ratios, spread = {}, {}
    for ratio in wanted:
        values = ratio.values(measured)
        ratios[ratio.key] = statistics.median(values)
        spread[ratio.key] = (min(values), max(values))
    return ratios, spread


def _answers_agree(answers: list[list[Any]]) -> bool:
    """Whether nobody contradicts anybody, and some question has an answer of two variants.

    `answers` holds those of each variant's rounds. An answer that is a mapping answers each of
    its keys; any other answers the one question there is.
    """
    by_question: dict[Any, list[tuple[int, Any]]] = {}
    for variant, rounds in enumerate(answers):
        for answer in rounds:
            answered = answer if isinstance(answer, Mapping) else {None: answer}
            for question, given in answered.items():
                if given is not None:
                    by_question.setdefault(question, []).append((variant, given))
    compared = any(len({variant for variant, _ in given}) > 1 for given in by_question.values())
    return compared and all(
        answer == given[0][1] for given in by_question.values() for _, answer in given
    )


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class _Worker:
    """A process that holds one or more variants and does what it is asked, one thing at a time."""

    def __init__(self, case: Case, size: str, names: list[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        previous = {key: os.environ.get(key) for key in case.env}
        os.environ.update(case.env)
        try:
            self.process = context.Process(
                target=_serve, args=(theirs, case.name, size, names), daemon=True
            )
            self.process.start()
        finally:
            for key, value in previous.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value
        theirs.close()

    def ask(self, what: str, name: str) -> Any:
        self.pipe.send((what, name))
        try:
            ok, answer = self.pipe.recv()
        except EOFError:
            raise BenchmarkFailed(f"the process of {name} died") from None
        if not ok:
            raise BenchmarkFailed(answer)
        return answer

    def close(self) -> None:
        if self.process.is_alive():
            try:
                self.pipe.send(("close", ""))
            except OSError:
                self.process.kill()
        self.process.join(timeout=60)
        if self.process.is_alive():
            self.process.kill()


class _Here:
    """Variants in this process, which do what they are asked."""

    def __init__(self, case: Case, size: str) -> None:
        self._case = case
        self._size = size
        self._runners: dict[str, Runner] = {}

    def ask(self, what: str, name: str) -> Any:
        if what == "prepare":
            made = self._case.variants_at(self._size)[name]
            self._runners[name] = made(self._case.sizes[self._size])
            return self._runners[name].prepare()
        return self._runners[name].measure() if what == "measure" else peak_rss()

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()


def _serve(pipe: Connection, case_name: str, size: str, names: list[str]) -> None:
    """The loop of a worker process."""
    from benchmarks.cases import find

    variants = _Here(find(case_name), size)
    while True:
        what, name = pipe.recv()
        if what == "close":
            variants.close()
            return
        try:
            pipe.send((True, variants.ask(what, name)))
        except Exception:
            pipe.send((False, traceback.format_exc()))
