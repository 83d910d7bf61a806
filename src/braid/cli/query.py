"""`braid query add|drop|list`: requests changes of a running job and lists them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from braid.cli import show
from braid.cli.catalog import loaded_job
from braid.cli.changes import (
    Change,
    ChangeResult,
    Log,
    apply,
    directory,
    event_time,
    replay,
    request,
    requested,
    unit_of,
)
from braid.cli.job import Job, load_job
from braid.cli.stats import read_figures
from braid.errors import ConfigError
from braid.lang import Catalog

#: Seconds that a command waits for the result of a change, and between looks.
WAIT, POLL = 10.0, 0.2

#: The states of a change in the job's log.
WAITING, REFUSED = "waiting", "refused"

_LATER = "when it takes effect, after the job accepts it"

#: The most characters of a query's text in a list.
LETTERS = 70


def add_query(
    path: Path,
    query: str,
    text: str | None,
    file: Path | None,
    at: str | None,
    *,
    wait: float = WAIT,
    checkpoint: str | None = None,
) -> int:
    """Check a query as the job does, and request it of the running job."""
    written = _text(text, file)
    job, catalog = _current_catalog(path, checkpoint)
    change = Change("add", query, written, event_time(at, unit_of(catalog)))
    show.notices(apply(change, catalog))
    _request(job, change, wait)
    published = catalog.queries[query].template.publishes
    if published:
        names = ", ".join(published)
        said = f"the results that it publishes ({names}) are in the output 'matches' until the query is in the job's files and the job starts again"
        show.out.out(said, highlight=False)
    return 0


def drop_query(
    path: Path, query: str, at: str | None, *, wait: float = WAIT, checkpoint: str | None = None
) -> int:
    job, catalog = _current_catalog(path, checkpoint)
    change = Change("drop", query, at=event_time(at, unit_of(catalog)))
    apply(change, catalog)
    _request(job, change, wait)
    return 0


def _job(path: Path, checkpoint: str | None) -> Job:
    job = load_job(path)
    if checkpoint is None:
        return job
    return replace(job, checkpoint=str(Path(checkpoint).resolve()))


def _current_catalog(path: Path, checkpoint: str | None) -> tuple[Job, Catalog]:
    """The job, and its catalog with all requested changes."""
    job = _job(path, checkpoint)
    directory(job)
    catalog = loaded_job(job, rows=True).catalog
    replay(requested(job), catalog)
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


def _request(job: Job, change: Change, wait: float) -> None:
    """Request a change, and show the event time of its effect when the job has written it."""
    log = Log(job)
    log.skip()
    change = request(job, change)
    when = "" if change.at is None else f", from {change.at} on"
    show.out.out(f"asked the job to {change.op} '{change.id}'{when}", highlight=False)
    if wait <= 0 or read_figures(job, needed=False) is None:
        show.out.out(f"`braid query list` shows {_LATER}", highlight=False)
        return
    deadline = time.monotonic() + wait
    while (taken := log.of(change)) is None and time.monotonic() < deadline:
        time.sleep(min(POLL, wait))
    if taken is None:
        said = f"the job has not accepted it within {wait:g} seconds: `braid query list` shows {_LATER}"
        show.out.out(said, highlight=False)
    elif taken.state == REFUSED:
        hint = "the job's output 'rejected' has it too; correct it and ask again"
        what = f"the job refused to {change.op} '{change.id}': {taken.reason}"
        raise ConfigError("E470", what, hint)
    else:
        show.out.out(_result_text(change, taken), highlight=False)


def _result_text(change: Change, taken: ChangeResult) -> str:
    if taken.state == WAITING:
        return f"'{change.id}' waits until the job has started again with a route for its events"
    if change.op == "add":
        since = "the beginning" if taken.at is None else taken.at
        return f"'{change.id}' sees the events that start at {since} or later"
    if taken.at is None:
        return f"'{change.id}' gives no results"
    return f"'{change.id}' gives nothing that ends at {taken.at} or later"


# ---- list ----


def list_queries(path: Path, *, checkpoint: str | None = None) -> int:
    """The queries of the job file, the requested changes, and their known results."""
    job = _job(path, checkpoint)
    catalog = loaded_job(job, rows=True).catalog
    changes = requested(job) if job.control is not None else []
    table = Table(box=None, padding=(0, 2))
    for column in ("id", "where", "from", "state", "text"):
        table.add_column(column, overflow="fold")
    for name, roster in catalog.prepared.items():
        count = show.plural(len(roster), "member")
        table.add_row(Text(f"{name}/..."), "job file", "", count, _one_line(roster.statement.text))
    for query in catalog.queries.single.values():
        table.add_row(Text(query.id), "job file", "", "", _one_line(query.text))
    job_changes, log = _job_changes(job), Log(job)
    refused = replay(changes, catalog)
    for change in changes:
        taken = log.of(change)
        when = str((change.at if taken is None or taken.at is None else taken.at) or "")
        word = f"{change.op} requested"
        state = _state(change, job_changes, refused) if taken is None else _logged(taken)
        table.add_row(Text(change.id), word, when, state, _one_line(change.text or ""))
    show.out.print(table)
    return 0


def _one_line(text: str) -> Text:
    line = " ".join(text.split())
    return Text(line if len(line) <= LETTERS else line[: LETTERS - 1] + "…")


def _job_changes(job: Job) -> dict[str, Any]:
    """The results of changes in the running job's figures; those of the newest."""
    figures = read_figures(job, needed=False)
    job_changes = None if figures is None else figures.get("changes")
    return job_changes if isinstance(job_changes, dict) else {}


def _logged(taken: ChangeResult) -> str:
    if taken.state == REFUSED:
        return f"rejected: {taken.reason}"
    if taken.state == WAITING:
        return "waits for the job to start again"
    return "applied, from the beginning" if taken.at is None else "applied"


def _state(change: Change, job_changes: dict[str, Any], refused: dict[Change, str]) -> str:
    if change in refused:
        return f"rejected: {refused[change]}"
    if change.id in job_changes.get("waiting", ()):
        return "waits for the job to start again"
    if change.id in job_changes.get("added" if change.op == "add" else "dropped", ()):
        return "applied"
    return "requested"
