"""`braid stats`: shows the figures that a running job writes to its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from braid.cli import places, show
from braid.cli.job import Job, load_job
from braid.errors import ConfigError

#: The folder beside Spark's own files in the checkpoint directory.
FILE = "braid-stats.json"


def read_figures(job: Job, *, needed: bool = True) -> dict[str, Any] | None:
    """The figures of the last batch. If `needed`, it is an error that there are none."""
    if job.checkpoint is None:
        if not needed:
            return None
        hint = 'add checkpoint = "..." to [job], or use --checkpoint'
        raise ConfigError("E461", f"{job.file}: the job has no checkpoint", hint)
    where = f"{job.checkpoint.rstrip('/')}/{FILE}"
    text = places.read_text(where)
    if text is None:
        if not needed:
            return None
        hint = "a job writes them after its first batch; is it running with this checkpoint?"
        raise ConfigError("E467", f"there are no figures: no file {where}", hint)
    figures = _parsed(text)
    if figures is None:
        raise ConfigError("E467", f"{where} is not a file of figures")
    return figures


def _parsed(text: str) -> dict[str, Any] | None:
    """The figures of one engine, or of several under `shards`."""
    try:
        figures = json.loads(text)
    except ValueError:
        return None
    if not isinstance(figures, dict) or not {"shards", "totals"} & set(figures):
        return None
    return figures


def show_stats(path: Path, query: str | None, form: str, checkpoint: str | None = None) -> int:
    from dataclasses import replace

    from braid.engine.explain.statistics import merged

    job = load_job(path)
    if checkpoint is not None:
        job = replace(job, checkpoint=str(Path(checkpoint).resolve()))
    figures = read_figures(job)
    assert figures is not None
    parts = figures.get("shards")
    total = merged([figures] if parts is None else list(parts.values()))
    if query is not None:
        total["queries"] = _of(query, total["queries"])
    shown = {**_head(figures), **total, "progress": figures.get("progress", {})}
    if form == "json":
        show.out.out(json.dumps(shown, indent=1), highlight=False)
        return 0
    said = [f"batch {shown['batch']}", show.plural(shown["shards"], "shard")]
    said += [f"written at {shown['time']}"] if shown["time"] is not None else []
    show.out.out(", ".join(said), highlight=False)
    show.out.print()
    if query is None:
        _print_all(total, shown["progress"])
    show.out.print(_query_table(total["queries"]))
    return 0


def _head(figures: dict[str, Any]) -> dict[str, Any]:
    progress = figures.get("progress", {})
    shards = figures.get("shards")
    return {
        "batch": figures.get("batch", progress.get("batch")),
        "time": figures.get("time"),
        "shards": progress.get("shards", 1) if shards is None else len(shards),
    }


def _of(query: str, queries: dict[str, Any]) -> dict[str, Any]:
    """One query, or the members of a prepared one that have figures."""
    found = {
        name: figures
        for name, figures in queries.items()
        if name == query or name.startswith(f"{query}/")
    }
    if not found:
        some = ", ".join(list(queries)[:20]) or "none"
        hint = f"the file has suspended queries and those with most matches: {some}"
        raise ConfigError("E460", f"there are no figures of a query '{query}'", hint)
    return found


#: The figures of the whole run. The shards' own start when a shard was loaded.
_OF_THE_RUN = ("batches", "events", "matches", "late", "rejected", "restarts")


def _print_all(total: dict[str, Any], progress: dict[str, Any]) -> None:
    figures = {name: progress[name] for name in _OF_THE_RUN if name in progress}
    known = {name.replace("_", " "): value for name, value in total["totals"].items()}
    figures = {**known, **figures}
    if total["watermarks"]:
        figures["answered up to"] = show.moments(total["watermarks"])
    show.out.print(show.figures(figures))
    show.out.print()
    show.out.print(_mop_table(total["mops"]))
    for mop in total["mops"]:
        for line in _detail_lines(mop):
            show.out.print(Text(line), soft_wrap=True)
    show.out.print()


def _mop_table(mops: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2))
    table.add_column("m-op")
    table.add_column("kind")
    for name in ("members", "events in", "out", "instances", "state bytes", "index bytes"):
        table.add_column(name, justify="right")
    for mop in mops:
        counts = ("members", "events_in", "events_out", "instances", "state_bytes", "index_bytes")
        signature = mop["signature"]
        name = signature if signature.startswith("publish:") else signature[:8]
        table.add_row(Text(name), mop["kind"], *(show.count(mop[c]) for c in counts))
    return table


def _detail_lines(mop: dict[str, Any]) -> list[str]:
    """The state of the index of a selection, and the constraints that a join has found."""
    from braid.operators.registry import REGISTRY

    lines = REGISTRY.statistics_lines(mop["kind"], mop["detail"])
    return [f"{mop['signature'][:8]} {line}" for line in lines]


def _query_table(queries: dict[str, dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2))
    table.add_column("query")
    for name in ("matches", "instances"):
        table.add_column(name, justify="right")
    table.add_column("suspended", overflow="fold")
    ordered = sorted(queries.items(), key=lambda item: -item[1]["matches"])
    for name, figures in ordered:
        counts = (show.count(figures[c]) for c in ("matches", "instances"))
        table.add_row(Text(name), *counts, Text(figures.get("suspended") or ""))
    return table
