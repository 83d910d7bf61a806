"""The catalog of the command line: binds queries and streams without Spark, for checks and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from braid.cli.job import STANDARD_OUTPUTS, Job, PreparedConfig, StreamConfig
from braid.errors import BraidError, ConfigError, Notice, QueryErrors
from braid.lang import Catalog, load, stream_from_schema
from braid.lang.catalog.files import flatten, load_in_any_order
from braid.lang.catalog.prepared import Refused, prepare

if TYPE_CHECKING:
    from braid.engine.options import Options
    from braid.engine.shard import Shard


@dataclass
class Checked:
    """The result of a check of some files."""

    catalog: Catalog
    queries: dict[Path, int] = field(default_factory=dict)
    errors: dict[Path, list[BraidError]] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    #: The refused rows of prepared queries, by the query's name.
    refused: dict[str, list[Refused]] = field(default_factory=dict)


def loaded_job(job: Job, *, rows: bool) -> Checked:
    """The streams and queries of a job. Raises all errors in them.

    `rows`: include the members of prepared queries, which takes longer. Otherwise Braid only checks
    that these queries exist.
    """
    checked = check_files(job.query_files, catalog_of(job))
    raise_all(error for found in checked.errors.values() for error in found)
    for config in job.prepared:
        if rows or config.name not in checked.catalog.prepared:
            prepared = prepare(
                None, read_rows(config), checked.catalog, name=config.name, ids=config.ids
            )
            checked.catalog.add_prepared(prepared)
            checked.refused.setdefault(config.name, []).extend(prepared.refused)
    return checked


def read_rows(config: PreparedConfig) -> Any:
    """Rows as `prepare` takes them: the path of a CSV file, or a table."""
    if config.file.suffix.lower() not in (".parquet", ".pq"):
        return config.file
    import pyarrow.parquet as parquet

    try:
        return parquet.read_table(config.file)
    except (pa.ArrowInvalid, OSError) as error:
        message = f"{config.file} cannot be read as Parquet: {str(error).splitlines()[0]}"
        raise ConfigError("E165", message) from None


def check_files(files: Sequence[Path], catalog: Catalog) -> Checked:
    """Load every file into the catalog. Keeps the errors of those that cannot be loaded."""
    checked = Checked(catalog)

    def load_one(text: str, path: Path) -> None:
        loaded = load(text, catalog, name=str(path))
        checked.queries[path] = len(loaded.queries)
        checked.notices.extend(loaded.notices)

    checked.errors = load_in_any_order(files, load_one)
    return checked


def raise_all(errors: Iterable[BraidError]) -> None:
    """Raise all errors together, if there are any."""
    found = list(errors)
    if found:
        raise found[0] if len(found) == 1 else QueryErrors(found)


def planned(catalog: Catalog, options: Options | None = None) -> Shard:
    """The plan of an engine with these streams and queries, which runs nothing."""
    from braid.engine.options import Options, ShardOptions
    from braid.engine.shard import Shard

    declared = tuple(catalog.constraints.values())
    how = ShardOptions(options or Options(), declared=declared)
    return Shard(catalog.members(), catalog.streams, options=how)


def notices_of_plan(shard: Shard) -> list[Notice]:
    """The notices of a plan of all queries together."""
    from braid.engine.constraint_notices import unused_notices

    return unused_notices(shard.executor)


def catalog_of(job: Job) -> Catalog:
    """The streams of a job, from the schemas that its file gives."""
    catalog = Catalog()
    errors: list[BraidError] = []
    for config in job.streams:
        try:
            add_stream(catalog, config)
        except BraidError as error:
            errors.extend(flatten(error))
    raise_all(errors)
    return catalog


def add_stream(catalog: Catalog, config: StreamConfig) -> None:
    if config.schema is None:
        raise ConfigError(
            "E458",
            f"stream '{config.name}' has no schema in the job file",
            'to check queries without Spark, add one: schema = "Name STRING, Price DOUBLE"',
        )
    if not config.declares and all(name in catalog.streams for name in config.names):
        return  # further events of streams that another source declares
    for name in config.names:
        catalog.add_stream(
            stream_from_schema(
                name,
                parse_schema(name, config.schema),
                time=config.time or None,
                lateness=config.lateness,
                sequence=config.sequence,
                sharable=[other for other in config.names if other != name],
            )
        )


def parse_schema(name: str, ddl: str) -> pa.Schema:
    """`Name STRING, Price DOUBLE` as Arrow has it; the types are those of CREATE STREAM."""
    scratch = Catalog()
    load(f"CREATE STREAM {name} ({ddl});", scratch, name=f"schema of stream '{name}'")
    columns = scratch.streams[name].columns
    return pa.schema([(column.name, column.type) for column in columns])


def check_sinks(job: Job, published: Iterable[str]) -> None:
    """Check that every sink is of an existing output."""
    known = [*STANDARD_OUTPUTS, *published]
    unknown = [sink.output for sink in job.sinks if sink.output not in known]
    raise_all(
        ConfigError(
            "E459",
            f"{job.file}: [[sink]] '{name}' is of a stream that no query publishes",
            f"there are: {', '.join(known)}",
        )
        for name in unknown
    )
