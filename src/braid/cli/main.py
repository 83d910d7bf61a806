"""The commands. Each imports what it needs when it runs: `check` must work without Spark and Java."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from braid.cli import show
from braid.errors import BraidError, CheckpointError, ConfigError, QueryError, QueryErrors

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

JobFile = Annotated[Path, typer.Argument(help="a job file (TOML)", metavar="JOB.TOML")]


@app.command()
def run(
    job: JobFile,
    checkpoint: Annotated[
        str | None, typer.Option(help="where to resume from; instead of the job file's")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress")] = False,
) -> None:
    """Run a job: streams in, matches out. Ctrl-C stops it cleanly; the same command resumes."""
    from braid.cli.run import run_job

    raise typer.Exit(run_job(job, checkpoint=checkpoint, quiet=quiet))


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
    job: JobFile,
    query: Annotated[str | None, typer.Option(help="the id of one query")] = None,
) -> None:
    """Show the plan of a job: operators, what they share, where they run, and why."""
    from braid.cli.explain import explain_job

    raise typer.Exit(explain_job(job, query))


@app.command()
def version() -> None:
    """Show the version of Braid."""
    from braid import __version__

    show.out.print(f"braid {__version__}")


def exit_code(error: BraidError) -> int:
    """What kind of mistake it was."""
    if isinstance(error, QueryErrors):
        return max(exit_code(one) for one in error.errors)
    if isinstance(error, QueryError):
        return BAD_QUERIES
    if isinstance(error, CheckpointError):
        return BAD_CHECKPOINT
    if isinstance(error, ConfigError):
        return BAD_CONFIGURATION
    return BAD_QUERIES


def guarded(command: Callable[[], object]) -> int:
    """Run a command; what a user can cause is shown without a traceback."""
    try:
        command()
    except BraidError as error:
        from braid.cli.catalog import flatten

        for one in flatten(error):
            show.error(one)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0 if done.code is None else FAILED
    return 0


def main() -> None:
    sys.exit(guarded(app))


if __name__ == "__main__":
    main()
