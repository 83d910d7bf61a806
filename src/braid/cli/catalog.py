"""Queries against streams, checked without Spark: what `braid check` and tests of job files need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from braid.cli.job import STANDARD_OUTPUTS, Job, StreamConfig
from braid.errors import BraidError, ConfigError, Notice, QueryErrors
from braid.lang import Catalog, load, stream_from_schema


@dataclass
class Checked:
    """What checking a set of files found."""

    catalog: Catalog
    queries: dict[Path, int] = field(default_factory=dict)
    errors: dict[Path, list[BraidError]] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)


def check_files(files: Sequence[Path], catalog: Catalog) -> Checked:
    """Load every file into the catalog; the errors of all that cannot be loaded are kept."""
    checked = Checked(catalog)

    def load_one(text: str, path: Path) -> None:
        loaded = load(text, catalog, name=str(path))
        checked.queries[path] = len(loaded.queries)
        checked.notices.extend(loaded.notices)

    checked.errors = load_in_turns(files, load_one)
    return checked


def load_in_turns(
    files: Sequence[Path], load_one: Callable[[str, Path], object]
) -> dict[Path, list[BraidError]]:
    """Load files, whatever their order; returns the errors of those that cannot be loaded.

    A file may read what any other publishes, so one that fails gets another turn. Each turn loads
    what it can; when a turn loads nothing more, the errors of the files that are left stand.
    """
    errors: dict[Path, list[BraidError]] = {}
    left = list(files)
    while left:
        errors = {}
        for path in left:
            try:
                load_one(_read(path), path)
            except BraidError as error:
                errors[path] = flatten(error)
        if len(errors) == len(left):
            break
        left = list(errors)
    return errors


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("E456", f"cannot read {path}: {error}") from None


def raise_all(errors: Iterable[BraidError]) -> None:
    """Raise the errors, if there are any, together."""
    found = list(errors)
    if found:
        raise found[0] if len(found) == 1 else QueryErrors(found)


def flatten(error: BraidError) -> list[BraidError]:
    """The single errors of one that holds several."""
    return list(error.errors) if isinstance(error, QueryErrors) else [error]


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
    schema = parse_schema(config.name, config.schema)
    catalog.add_stream(
        stream_from_schema(
            config.name,
            schema,
            time=config.time or None,
            lateness=config.lateness,
            sequence=config.sequence,
        )
    )


def parse_schema(name: str, ddl: str) -> pa.Schema:
    """`Name STRING, Price DOUBLE` as Arrow has it; the types are those of CREATE STREAM."""
    scratch = Catalog()
    load(f"CREATE STREAM {name} ({ddl});", scratch, name=f"schema of stream '{name}'")
    columns = scratch.streams[name].columns
    return pa.schema([(column.name, column.type) for column in columns])


def check_sinks(job: Job, published: Iterable[str]) -> None:
    """Every sink must be of something that exists."""
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
