"""Progress of a pipeline: live figures on a terminal, log lines elsewhere, clean stops.

Ctrl-C must not kill a batch in the middle of a write, nor show a stack trace of three languages.
The signal only sets an event, and the loop that watches it stops the pipeline.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from braid.cli import show
from braid.errors import Notice

POLL = 0.25
#: Seconds between two lines without a terminal.
LINE_EVERY = 10.0


class Watched(Protocol):
    """The part of `braid.spark.running.Running` that this module uses."""

    @property
    def progress(self) -> Any: ...

    @property
    def suspended(self) -> dict[str, str]: ...

    @property
    def notices(self) -> tuple[Notice, ...]: ...

    def await_termination(self, timeout: float | None = None) -> bool: ...

    def stop(self) -> None: ...


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set instead of an interrupt; a second Ctrl-C interrupts."""
    asked = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    previous = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Watch:
    """The display of one run from its start to its end."""

    def __init__(
        self,
        running: Watched,
        *,
        console: Console = show.err,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.running = running
        self.console = console
        self.clock = clock
        self.started = clock()
        self.reported: set[str] = set()

    def until_done(self, asked: threading.Event, *, quiet: bool = False) -> bool:
        """Wait for the end and show figures. True if the run ended by itself, False if it was
        stopped."""
        if quiet:
            done = self._loop(asked, lambda: None)
        elif self.console.is_terminal:
            with Live(self.figures(), console=self.console, refresh_per_second=8) as live:
                done = self._loop(asked, lambda: live.update(self.figures()))
        else:
            done = self._loop(asked, self._line_now_and_then())
        if not done:
            self.running.stop()
        return done

    def _loop(self, asked: threading.Event, show_figures: Callable[[], None]) -> bool:
        while not asked.is_set():
            done = self.running.await_termination(POLL)
            self._warn()
            show_figures()
            if done:
                return True
        return False

    def _warn(self) -> None:
        """Show a suspended query or a notice once, when it occurs."""
        for notice in self.running.notices:
            if notice.render() not in self.reported:
                self.reported.add(notice.render())
                self.console.print(Text(notice.render(), style="yellow"), soft_wrap=True)
        for query, reason in self.running.suspended.items():
            if query not in self.reported:
                self.reported.add(query)
                self.console.print(f"query '{query}' is suspended: {reason}", style="yellow")

    def _line_now_and_then(self) -> Callable[[], None]:
        """Print a line for the first batch, and then at intervals."""
        last, began = self.clock(), False

        def show_line() -> None:
            nonlocal last, began
            first = not began and self.running.progress.batches > 0
            if first or self.clock() - last >= LINE_EVERY:
                last, began = self.clock(), began or first
                self.console.print(self.line(), soft_wrap=True)

        return show_line

    @property
    def seconds(self) -> float:
        return self.clock() - self.started

    def figures(self) -> Table:
        p = self.running.progress
        return show.figures(
            {
                "running": f"{self.seconds:.0f} s{'' if p.batches else ' (workers start, queries compile)'}",
                "batches": p.batches,
                "events": p.events,
                "events/s (last batch)": p.events_per_second,
                "matches": p.matches,
                "answered up to": show.moments(p.watermarks),
                "late": p.late,
                "rejected": p.rejected,
                "function calls without a value": p.failed_calls,
                "shards": p.shards,
                "instances held": p.instances,
                "state written (last batch)": f"{p.saved_bytes:,} bytes",
            }
        )

    def line(self) -> str:
        p = self.running.progress
        return (
            f"{self.seconds:.0f} s: {p.batches:,} batches, {p.events:,} events"
            f" ({p.events_per_second:,.0f}/s in the last batch), {p.matches:,} matches,"
            f" {p.late:,} late, {p.rejected:,} rejected, {show.plural(p.shards, 'shard')}"
        )
