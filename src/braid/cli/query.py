"""`braid query add|drop|list`: changes of a job that is running, and what it has been asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from braid.cli import show
from braid.cli.catalog import loaded_job
from braid.cli.changes import Change, apply, ask, asked, directory, event_time, replay, unit_of
from braid.cli.job import Job, load_job
from braid.cli.stats import read_figures
from braid.errors import ConfigError
from braid.lang import Catalog

#: Characters of a query's text in a list.
LETTERS = 70


def add_query(path: Path, query: str, text: str | None, file: Path | None, at: str | None) -> int:
    """Check a query as the job would, and ask the running job to take it."""
    written = _text(text, file)
    job, catalog = _now(path)
    change = Change("add", query, written, event_time(at, unit_of(catalog)))
    show.notices(apply(change, catalog))
    done = _asked(job, change)
    published = catalog.queries[query].template.publishes
    if published:
        said = (
            f"what it publishes ({', '.join(published)}) is in the output 'matches': it becomes an"
        )
        said += " output of its own when the query is in the job's files and the job starts again"
        show.out.out(said, highlight=False)
    return done


def drop_query(path: Path, query: str, at: str | None) -> int:
    job, catalog = _now(path)
    change = Change("drop", query, at=event_time(at, unit_of(catalog)))
    apply(change, catalog)
    return _asked(job, change)


def _now(path: Path) -> tuple[Job, Catalog]:
    """The job with the changes that have been asked for so far."""
    job = load_job(path)
    directory(job)
    catalog = loaded_job(job, rows=True).catalog
    replay(asked(job), catalog)
    return job, catalog


def _text(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise ConfigError("E466", "give the query's text, or --file with a file that has it")
    if file is None:
        return text or ""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("E456", f"cannot read {file}: {error}") from None


def _asked(job: Job, change: Change) -> int:
    ask(job, change)
    word = "it sees events from" if change.op == "add" else "it puts out nothing from"
    said = "as soon as the job reads this" if change.at is None else f"{word} {change.at} on"
    show.out.out(f"asked the job to {change.op} '{change.id}': {said}", highlight=False)
    return 0


# ---- list ----


def list_queries(path: Path) -> int:
    """The queries of the job file, the changes asked for, and what became of these if known."""
    job = load_job(path)
    catalog = loaded_job(job, rows=True).catalog
    changes = asked(job) if job.control is not None else []
    table = Table(box=None, padding=(0, 2))
    for column in ("id", "where", "from", "state", "text"):
        table.add_column(column, overflow="fold")
    for name, roster in catalog.prepared.items():
        count = show.plural(len(roster), "member")
        table.add_row(Text(f"{name}/..."), "job file", "", count, _short(roster.statement.text))
    for query in catalog.queries.single.values():
        table.add_row(Text(query.id), "job file", "", "", _short(query.text))
    fate = _fate(job)
    refused = replay(changes, catalog)
    for change in changes:
        when = "" if change.at is None else str(change.at)
        word, state = f"{change.op} asked for", _state(change, fate, refused)
        table.add_row(Text(change.id), word, when, state, _short(change.text or ""))
    show.out.print(table)
    return 0


def _short(text: str) -> Text:
    line = " ".join(text.split())
    return Text(line if len(line) <= LETTERS else line[: LETTERS - 1] + "…")


def _fate(job: Job) -> dict[str, Any]:
    """What the running job says became of changes; the newest of them."""
    figures = read_figures(job, needed=False)
    fate = None if figures is None else figures.get("changes")
    return fate if isinstance(fate, dict) else {}


def _state(change: Change, fate: dict[str, Any], refused: dict[Change, str]) -> str:
    if change in refused:
        return f"rejected: {refused[change]}"
    if change.id in fate.get("waiting", ()):
        return "waits for the job to start again"
    if change.id in fate.get("added" if change.op == "add" else "dropped", ()):
        return "applied"
    return "asked for"
