"""`braid explain`: the plan of a job, from the schemas in its file; without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from braid.cli import show
from braid.cli.catalog import catalog_of, check_files, raise_all
from braid.cli.job import load_job
from braid.errors import ConfigError
from braid.lang import Catalog

if TYPE_CHECKING:
    from braid.engine import Engine


def explain_job(path: Path, query: str | None) -> int:
    job = load_job(path)
    checked = check_files(job.query_files, catalog_of(job))
    raise_all(error for found in checked.errors.values() for error in found)
    show.notices(checked.notices)
    catalog = checked.catalog
    if query is not None and query not in catalog.queries:
        known = ", ".join(list(catalog.queries)[:20]) or "none"
        raise ConfigError("E460", f"there is no query '{query}'", f"queries: {known}")
    engine = engine_of(catalog)
    show.out.print(engine.explain(query), markup=False, soft_wrap=True)
    show.out.print()
    show.out.print(where_they_run(catalog, job.shards or 1, query), markup=False, soft_wrap=True)
    return 0


def engine_of(catalog: Catalog) -> Engine:
    """An engine with the same streams and queries; nothing runs in it."""
    from braid.engine import Engine

    engine = Engine()
    for stream in catalog.streams.values():
        columns = pa.schema([(column.name, column.type) for column in stream.columns])
        engine.stream(
            stream.name,
            columns,
            time=stream.time or None,
            lateness=stream.lateness,
            sequence=stream.sequence,
        )
    for query in catalog.queries.values():
        engine.query(query.id, query.text)
    return engine


def where_they_run(catalog: Catalog, shards: int, query: str | None) -> str:
    """Which component a query is in, how it is distributed, and why."""
    from braid.plan.distribution import distribute, explain, linked

    queries = list(catalog.queries.values())
    if query is not None:
        queries = [
            q for group in linked(queries) if any(m.id == query for m in group) for q in group
        ]
    return explain(distribute(queries, catalog.streams, shards))
