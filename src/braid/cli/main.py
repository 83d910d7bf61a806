"""The commands. Each imports its modules when it runs: `check` must work without Spark and Java."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from braid.cli import show
from braid.errors import (
    BraidError,
    CheckpointError,
    ConfigError,
    PipelineError,
    QueryError,
    QueryErrors,
)

#: Exit codes; docs/operations.md and `braid --help` list them.
BAD_QUERIES = 1
BAD_CONFIGURATION = 2
FAILED = 3
BAD_CHECKPOINT = 4
INTERRUPTED = 130

EPILOG = (
    "Exit codes: 0 done; 1 a query is wrong; 2 the command or the job file is wrong, or Java is "
    "missing; 3 the pipeline failed; 4 the checkpoint does not fit; 130 stopped by Ctrl-C."
)

app = typer.Typer(
    name="braid",
    help="Very many standing queries over event streams, as a Spark pipeline.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

query_app = typer.Typer(
    help="Change the queries of a job while it runs; the job file names its control directory.",
    no_args_is_help=True,
)
app.add_typer(query_app, name="query")


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Very many standing queries over event streams, as a Spark pipeline."""


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    SVG = "svg"


class FigureForm(StrEnum):
    TEXT = "text"
    JSON = "json"


JobFile = Annotated[Path, typer.Argument(help="a job file (TOML)", metavar="JOB.TOML")]
Job = Annotated[Path, typer.Option("--job", help="the job file", metavar="JOB.TOML")]
Id = Annotated[str, typer.Option("--id", help="the id of the query")]
At = Annotated[
    str | None,
    typer.Option("--at", help="event time: 2024-01-31T09:00:00Z, or a number; default: now"),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait", help="seconds to wait until the job reports when the change takes effect"
    ),
]
Checkpoint = Annotated[
    str | None, typer.Option(help="the job's checkpoint; instead of the job file's")
]
RuleNames = Annotated[
    str | None,
    typer.Option("--rules", help="rules of the optimizer: all, none, a,b (only these), or -a,-b"),
]


@app.command()
def run(
    job: JobFile,
    checkpoint: Annotated[
        str | None, typer.Option(help="where to resume from; instead of the job file's")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress")] = False,
    rules: RuleNames = None,
) -> None:
    """Run a job: streams in, matches out. Ctrl-C stops it cleanly; the same command resumes."""
    from braid.cli.job import parse_rules
    from braid.cli.run import run_job

    chosen = parse_rules(rules)
    raise typer.Exit(run_job(job, checkpoint=checkpoint, quiet=quiet, rules=chosen))


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(help="query files, or patterns", metavar="FILES")],
    streams: Annotated[
        Path | None, typer.Option(help="a job file that declares the streams")
    ] = None,
) -> None:
    """Check query files: every error of every file, with line, caret and alternatives."""
    from braid.cli.check import check_command

    raise typer.Exit(check_command(files, streams))


@app.command()
def explain(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="query files, or patterns; or one job file", metavar="FILES"),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(help="a job file: its streams, and its queries if no FILES are given"),
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="the id of one query, or the name of a prepared one")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="how it is shown")] = Form.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="a file to write it to")
    ] = None,
    rules: RuleNames = None,
) -> None:
    """Show the shared plan: m-ops, members, indexes, the rules that made them, where they run."""
    from braid.cli.explain import explain_command
    from braid.cli.job import parse_rules

    raise typer.Exit(
        explain_command(
            files or (), job, query=query, form=form.value, output=output, rules=parse_rules(rules)
        )
    )


@app.command()
def stats(
    job: Job,
    query: Annotated[
        str | None, typer.Option(help="the id of one query, or the name of a prepared one")
    ] = None,
    form: Annotated[FigureForm, typer.Option("--format", help="how it is shown")] = FigureForm.TEXT,
    checkpoint: Checkpoint = None,
) -> None:
    """Show the counts of a running job: events, matches, instances, bytes, and its indexes."""
    from braid.cli.stats import show_stats

    raise typer.Exit(show_stats(job, query, form.value, checkpoint))


@query_app.command("add")
def add(
    job: Job,
    id: Id,
    text: Annotated[str | None, typer.Argument(help="the query", metavar="TEXT")] = None,
    file: Annotated[
        Path | None, typer.Option(help="a file that has the query; - is the standard input")
    ] = None,
    at: At = None,
    wait: Wait = 10.0,
    checkpoint: Checkpoint = None,
) -> None:
    """Check a query and add it to the running job; it sees events that start at --at or later."""
    from braid.cli.query import add_query

    raise typer.Exit(add_query(job, id, text, file, at, wait=wait, checkpoint=checkpoint))


@query_app.command("drop")
def drop(job: Job, id: Id, at: At = None, wait: Wait = 10.0, checkpoint: Checkpoint = None) -> None:
    """Drop a query from the running job; it has no results that end at --at or later."""
    from braid.cli.query import drop_query

    raise typer.Exit(drop_query(job, id, at, wait=wait, checkpoint=checkpoint))


@query_app.command("list")
def list_(job: Job, checkpoint: Checkpoint = None) -> None:
    """List the queries of a job, the requested changes, and when these take effect."""
    from braid.cli.query import list_queries

    raise typer.Exit(list_queries(job, checkpoint=checkpoint))


@app.command()
def version() -> None:
    """Show the version of Braid."""
    from braid import __version__

    show.out.print(f"braid {__version__}")


def exit_code(error: BraidError) -> int:
    """The exit code for an error."""
    if isinstance(error, QueryErrors):
        return max(exit_code(one) for one in error.errors)
    if isinstance(error, QueryError):
        return BAD_QUERIES
    if isinstance(error, CheckpointError):
        return BAD_CHECKPOINT
    if isinstance(error, PipelineError):
        return FAILED
    if isinstance(error, ConfigError):
        return BAD_CONFIGURATION
    return BAD_QUERIES


def guarded(command: Callable[[], object]) -> int:
    """Run a command. Errors that users can cause are shown without a traceback."""
    try:
        command()
    except BraidError as error:
        from braid.lang.catalog.files import flatten

        for one in flatten(error):
            show.error(one)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0 if done.code is None else FAILED
    return 0


def main() -> None:
    # The commands show notices themselves; the log would repeat them.
    logging.getLogger("braid").addHandler(logging.NullHandler())
    sys.exit(guarded(app))


if __name__ == "__main__":
    main()
