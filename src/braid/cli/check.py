"""`braid check`: checks query files, without Spark and Java."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from braid.cli import show
from braid.cli.catalog import catalog_of, check_files, notices_of_plan, planned
from braid.cli.job import load_job
from braid.errors import ConfigError
from braid.lang import Catalog
from braid.lang.catalog.declared_streams import declared_streams
from braid.lang.catalog.files import SUFFIXES, query_files


def check_command(patterns: Sequence[str], streams: Path | None) -> int:
    """Exit code 0 if every file is right, 1 if not."""
    job = None if streams is None else load_job(streams)
    catalog = Catalog() if job is None else catalog_of(job)
    files = find(patterns)
    checked = check_files(files, catalog)
    show.notices(checked.notices)
    if catalog.constraints and not checked.errors:
        # The plan of all queries together shows which of them are used.
        options = None if job is None else job.options
        show.notices(notices_of_plan(planned(catalog, options)))
    errors = [error for path in files for error in checked.errors.get(path, [])]
    for error in errors:
        show.error(error)
    queries = show.plural(sum(checked.queries.values()), "query")
    if not errors:
        show.out.print(f"[green]ok[/]: {queries} in {show.plural(len(files), 'file')}")
        return 0
    if streams is None and not any(map(_declares_streams, files)):
        show.err.print("no stream is declared: add CREATE STREAM, or give --streams JOB.TOML")
    bad = show.plural(len(checked.errors), "file")
    show.err.print(
        f"{show.plural(len(errors), 'error')} in {bad}; {queries} in the others are valid"
    )
    return 1


NO_FILES = f"give a query file, a pattern, or a folder of files ({', '.join(SUFFIXES)})"


def find(patterns: Sequence[str]) -> list[Path]:
    """The files of paths, folders and patterns, each once. The shell may not have expanded
    patterns."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        matches = query_files(pattern)
        if not matches:
            raise ConfigError("E456", f"nothing matches '{pattern}'", NO_FILES)
        found.update(dict.fromkeys(matches))
    return list(found)


def _declares_streams(path: Path) -> bool:
    """Whether a file declares streams, even if its queries have errors. An unreadable file is
    already reported."""
    try:
        return bool(declared_streams(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return False
