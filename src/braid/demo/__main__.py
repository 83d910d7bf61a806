"""`python -m braid.demo`: generate, run, show. The files stay in demo-output/."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from braid.cli import show
from braid.cli.progress import Watch, stop_signals
from braid.cli.run import QUIET, output_of_children
from braid.demo.rules import Rule, rules
from braid.demo.stocks import SCHEMA, Market, write
from braid.errors import BraidError

if TYPE_CHECKING:
    from braid.spark import Running, Session

LATENESS = "5 seconds"


@dataclass
class ShapeMatches:
    """The matches of the queries of one shape."""

    queries: int = 0
    matches: int = 0
    matched: set[str] = field(default_factory=set)
    example: str = ""


def main(market: Market | None = None, folder: Path = Path("demo-output")) -> int:
    market = market or Market()
    out = show.err
    shutil.rmtree(folder, ignore_errors=True)
    made = rules(market)
    with out.status(f"writing {market.events:,} quotes of {market.names} names ..."):
        write(market, folder / "input")
    write_rules(made, folder / "rules.cel")
    with stop_signals() as asked:
        try:
            return run(market, made, folder, asked)
        except BraidError as error:
            show.error(error)
            return 2


def run(market: Market, made: list[Rule], folder: Path, asked: threading.Event) -> int:
    from braid.spark import Session, local_spark

    out = show.err
    out.print("[dim]starting Spark ...[/]")
    with output_of_children(folder / "spark.log"):
        spark = local_spark(os.cpu_count() or 2, **QUIET)
    try:
        session = Session(spark)
        source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        session.stream("Stock", source.parquet(str(folder / "input")), time="ts", lateness=LATENESS)
        began = time.monotonic()
        with out.status(f"registering {len(made):,} queries ..."):
            for rule in made:
                session.query(rule.id, rule.text)
        registered = time.monotonic() - began
        out.print(f"{len(made):,} queries registered in {registered:.1f} s")
        running = start(session, folder)
        watch = Watch(running)
        if not watch.until_done(asked):
            out.print("stopped; `make demo` starts again from nothing.")
            return 130
        out.print(watch.line())
        seconds = watch.seconds
        progress = running.progress
    finally:
        spark.stop()
    shown = report(made, folder / "matches")
    show.out.print(shown)
    show.out.print(
        f"{progress.events:,} events against {len(made):,} queries, {progress.matches:,} matches, in"
        f" {seconds:.1f} s of streaming\n(with the start of Spark's Python workers and the"
        f" compilation of {len({r.shape for r in made})} shapes of query in the first batch).\n"
        f"Files: {folder}/matches (JSON), {folder}/late (JSON), {folder}/input (Parquet),"
        f" {folder}/rules.cel",
        soft_wrap=True,
    )
    return 0


def start(session: Session, folder: Path) -> Running:
    from braid.spark import FileSink

    return session.start(
        {
            "matches": FileSink(str((folder / "matches").resolve()), "json"),
            "late": FileSink(str((folder / "late").resolve()), "json"),
        },
        checkpoint=str((folder / "checkpoint").resolve()),
        trigger="available now",
    )


def write_rules(made: list[Rule], path: Path) -> None:
    """The queries as a file that `braid check` takes."""
    declared = f"CREATE STREAM Stock ({SCHEMA}) TIME ts LATENESS {LATENESS.upper()};\n\n"
    texts = (f"CREATE QUERY {rule.id} AS\n{rule.text};\n" for rule in made)
    path.write_text(declared + "\n".join(texts), encoding="utf-8")


def matches(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.json")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def report(made: list[Rule], folder: Path) -> Table:
    """Per shape: how many queries there are, how many matched, how often, and one example."""
    shapes = {rule.id: rule.shape for rule in made}
    found = {shape: ShapeMatches(number) for shape, number in Counter(shapes.values()).items()}
    for row in matches(folder):
        entry = found[shapes[row["query"]]]
        entry.matches += 1
        entry.matched.add(row["query"])
        if not entry.example:
            entry.example = example(row)
    table = Table(title="What matched", title_justify="left")
    table.add_column("shape", no_wrap=True)
    for heading in ("queries", "that matched", "matches"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("for example", overflow="ellipsis", no_wrap=True)
    for shape, entry in found.items():
        figures = (entry.queries, len(entry.matched), entry.matches)
        table.add_row(shape, *(f"{n:,}" for n in figures), entry.example)
    return table


def example(row: dict[str, Any]) -> str:
    values = ", ".join(f"{name} {value}" for name, value in row["payload"].items())
    return f"{row['end'][11:19]} {values}"


if __name__ == "__main__":
    sys.exit(main())
