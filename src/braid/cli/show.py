"""Output of the command line: errors and warnings go to stderr, results to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from braid.errors import BraidError, Notice

if TYPE_CHECKING:
    from braid.lang.catalog.prepared import Refused

#: Wide where there is no terminal whose width would matter: nothing is cut in a log.
_WIDTH = {True: None, False: 140}

#: Times from here on are shown as numbers.
_YEAR_9999 = 60_000_000_000_000_000

out = Console(highlight=False, width=_WIDTH[sys.stdout.isatty()])
err = Console(stderr=True, highlight=False, width=_WIDTH[sys.stderr.isatty()])


def error(problem: BraidError) -> None:
    """As `render` gives it, with colour where there is a terminal; never wrapped, so carets fit."""
    first, _, rest = problem.render().partition("\n")
    err.print(Text(first, style="bold red"), soft_wrap=True)
    if rest:
        err.print(Text(rest), soft_wrap=True)
    err.print()


def notices(found: Iterable[Notice]) -> None:
    for notice in found:
        err.print(Text(notice.render(), style="yellow"), soft_wrap=True)


def refused(name: str, rows: Sequence[Refused], *, most: int = 5) -> None:
    """Some of the refused rows of a prepared query, and their number."""
    if not rows:
        return
    lines = [f"prepared query '{name}': {plural(len(rows), 'row')} refused"]
    lines += [f"  {row.render()}" for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"  and {count(len(rows) - most)} more")
    err.print(Text("\n".join(lines), style="yellow"), soft_wrap=True)


def count(number: float) -> str:
    return f"{number:,.0f}"


def plural(number: int, word: str) -> str:
    """`1 query`, `2 queries`."""
    if number == 1:
        return f"{number:,} {word}"
    return f"{number:,} {word[:-1]}ies" if word.endswith("y") else f"{number:,} {word}s"


def moments(watermarks: Mapping[str, int]) -> str:
    """The progress of time: a date for microseconds, the number for ticks."""
    shown = []
    for clock, time in watermarks.items():
        if clock == "us" and abs(time) < _YEAR_9999:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
            shown.append(moment.isoformat(sep=" ", timespec="milliseconds")[:-6])
        else:
            shown.append(f"{clock} {time:,}")
    return ", ".join(shown) or "-"


def figures(rows: Mapping[str, Any]) -> Table:
    """Names and figures in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, value in rows.items():
        shown = count(value) if isinstance(value, int | float) else str(value)
        table.add_row(name, shown)
    return table
