"""`braid explain`: the shared plan of query files or of a job; without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from braid.cli import show
from braid.cli.catalog import (
    Checked,
    catalog_of,
    check_files,
    loaded_job,
    notices_of_plan,
    planned,
    raise_all,
)
from braid.cli.check import find
from braid.cli.job import Job, Rules, load_job
from braid.errors import ConfigError
from braid.lang import Catalog

if TYPE_CHECKING:
    from braid.engine.explain.explain import Explained
    from braid.engine.shard import Shard


def explain_command(
    patterns: Sequence[str],
    job_file: Path | None,
    *,
    query: str | None = None,
    form: str = "text",
    output: Path | None = None,
    rules: Rules = None,
) -> int:
    """Files over the streams that they or a job declare; or a job. A job file may be given as
    the only file, too."""
    from braid.engine.options import Options

    if job_file is None and len(patterns) == 1 and patterns[0].endswith(".toml"):
        job_file, patterns = Path(patterns[0]), ()
    if job_file is None and not patterns:
        raise ConfigError("E466", "nothing to explain", "give query files, or --job JOB.TOML")
    job = None if job_file is None else load_job(job_file)
    checked = _loaded(job, patterns)
    show.notices(checked.notices)
    for name, rows in checked.refused.items():
        show.refused(name, rows)
    catalog = checked.catalog
    if query is not None and query not in catalog.queries and query not in catalog.prepared:
        known = [*catalog.prepared, *catalog.queries.single]
        some = ", ".join(known[:20]) or "none"
        raise ConfigError("E460", f"there is no query '{query}'", f"queries: {some}")
    options = Options() if job is None else job.options
    if rules is not None:
        options = replace(options, rules=rules)
    shard = planned(catalog, options)
    show.notices(notices_of_plan(shard))
    explained = _explained(shard, catalog, query)
    _write(_rendered(explained, form, catalog, options.shards or 1, query), output)
    return 0


def _loaded(job: Job | None, patterns: Sequence[str]) -> Checked:
    if job is not None and not patterns:
        return loaded_job(job, rows=True)
    catalog = Catalog() if job is None else catalog_of(job)
    checked = check_files(find(patterns), catalog)
    raise_all(error for found in checked.errors.values() for error in found)
    return checked


def _explained(shard: Shard, catalog: Catalog, query: str | None) -> Explained:
    from braid.engine.explain.explain import explained

    return explained(shard, catalog, query)


def _rendered(
    explained: Explained, form: str, catalog: Catalog, shards: int, query: str | None
) -> str:
    if form == "svg":
        return explained.svg()
    where = where_they_run(catalog, shards, query)
    if form == "json":
        return json.dumps({**explained.to_dict(), "distribution": where.splitlines()}, indent=1)
    return f"{explained}\n\n{where}"


def _write(text: str, output: Path | None) -> None:
    if output is None:
        show.out.out(text, highlight=False)
        return
    try:
        output.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError("E463", f"cannot write {output}: {error}") from None


def where_they_run(catalog: Catalog, shards: int, query: str | None) -> str:
    """How queries are distributed, and why; of one query only the component that it is in."""
    from braid.distribution.distribution import distribute, explain

    found = distribute(catalog.members(), catalog.streams, shards)
    if query is not None:
        roster = catalog.prepared.get(query)
        template = catalog.queries[query].template if roster is None else roster.template
        own = [c for c in found.components if any(g.template is template for g in c.groups)]
        found = replace(found, components=tuple(own))
    return explain(found)
