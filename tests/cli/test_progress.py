"""Watching a run: its figures, its end, Ctrl-C."""

from __future__ import annotations

import io
import signal
import threading
from dataclasses import dataclass, field

from rich.console import Console

from braid.cli.progress import LINE_EVERY, Watch, stop_signals
from braid.errors import Notice


@dataclass
class Figures:
    batches: int = 3
    events: int = 12_345
    events_per_second: float = 2_000.0
    matches: int = 7
    late: int = 1
    rejected: int = 0
    failed_calls: int = 0
    shards: int = 2
    instances: int = 9
    saved_bytes: int = 1_024
    watermarks: dict[str, int] = field(
        default_factory=lambda: {"us": 1_704_187_800_250_000, "tick": 12}
    )


@dataclass
class FakeRun:
    """Ends after some polls; may be stopped."""

    polls: int
    suspended: dict[str, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    on_poll: list[threading.Event] = field(default_factory=list)
    stopped: bool = False
    progress: Figures = field(default_factory=Figures)

    def await_termination(self, timeout: float | None = None) -> bool:
        self.polls -= 1
        for event in self.on_poll:
            event.set()
        return self.polls <= 0

    def stop(self) -> None:
        self.stopped = True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def watch(run: FakeRun, *, terminal: bool = False) -> tuple[Watch, io.StringIO]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    return Watch(run, console=console, clock=Clock()), text


def test_a_run_that_ends() -> None:
    run = FakeRun(2)
    watched, _ = watch(run)
    assert watched.until_done(threading.Event())
    assert not run.stopped


def test_a_run_that_is_stopped() -> None:
    asked = threading.Event()
    run = FakeRun(100, on_poll=[asked])
    watched, _ = watch(run)
    assert not watched.until_done(asked)
    assert run.stopped


def test_lines_without_a_terminal() -> None:
    watched, text = watch(FakeRun(int(3 * LINE_EVERY)))
    watched.until_done(threading.Event())
    lines = text.getvalue().replace("\n", " ")
    assert "12,345 events" in lines
    assert "7 matches" in lines
    assert "2 shards" in lines


def test_figures_on_a_terminal() -> None:
    watched, text = watch(FakeRun(2), terminal=True)
    watched.until_done(threading.Event())
    assert "12,345" in text.getvalue()
    assert "2024-01-02 09:30:00.250, tick 12" in text.getvalue()


def test_quiet() -> None:
    watched, text = watch(FakeRun(100))
    watched.until_done(threading.Event(), quiet=True)
    assert text.getvalue() == ""


def test_suspended_queries_are_said_once() -> None:
    watched, text = watch(FakeRun(5, suspended={"greedy": "over its budget"}))
    watched.until_done(threading.Event(), quiet=True)
    assert text.getvalue().count("query 'greedy' is suspended: over its budget") == 1


def test_signals_ask_and_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_signals() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.is_set()
    assert signal.getsignal(signal.SIGINT) is before


def test_notices_are_said_once() -> None:
    notice = Notice("W205", "paid", "constraint 'k' does not hold")
    watched, text = watch(FakeRun(5, notices=(notice,)))
    watched.until_done(threading.Event(), quiet=True)
    assert text.getvalue().count("warning[W205] in query 'paid': constraint 'k' does not") == 1
