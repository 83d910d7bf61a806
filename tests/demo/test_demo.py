"""The demo: the same stream and queries in every run, and what Spark finds is what an engine finds."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import braid
from braid.demo.__main__ import LATENESS, matches, report, write_rules
from braid.demo.rules import rules
from braid.demo.stocks import ARROW_SCHEMA, Market, batches, write
from braid.lang import Catalog, load

SMALL = Market(names=10, events=6_000, files=3, step_us=500_000)


def test_a_thousand_queries_that_bind(tmp_path: Path) -> None:
    made = rules(Market())
    assert len(made) == 1_000
    assert len({rule.id for rule in made}) == 1_000
    write_rules(made, tmp_path / "rules.cel")
    loaded = load((tmp_path / "rules.cel").read_text("utf-8"), Catalog())
    assert len(loaded.queries) == 1_000
    assert not loaded.notices, "every pattern of the demo is bounded"


def test_the_stream_is_the_same_every_time() -> None:
    once, again = (pa.concat_tables(batches(SMALL)) for _ in range(2))
    assert once.equals(again)
    assert once.num_rows == SMALL.events


def test_files_are_in_order(tmp_path: Path) -> None:
    write(SMALL, tmp_path / "input")
    files = sorted((tmp_path / "input").iterdir())
    assert len(files) == SMALL.files
    times = [file.stat().st_mtime for file in files]
    assert times == sorted(set(times))


def test_the_report(tmp_path: Path) -> None:
    made = rules(SMALL)
    row = {"query": made[1].id, "end": "2024-01-02T09:46:30.700Z", "payload": {"Name": "ALAL"}}
    (tmp_path / "batch=0").mkdir()
    (tmp_path / "batch=0" / "part.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
    text = io.StringIO()
    Console(file=text, width=120).print(report(made, tmp_path))
    assert "09:46:30 Name ALAL" in text.getvalue()


def engine_counts(market: Market) -> Counter[str]:
    engine = braid.Engine()
    engine.stream("Stock", ARROW_SCHEMA, time="ts", lateness=LATENESS)
    for rule in rules(market):
        engine.query(rule.id, rule.text)
    found: Counter[str] = Counter()
    for table in batches(market):
        engine.process({"Stock": table})
        found.update(engine.matches["query"].to_pylist())
    return found


def test_every_shape_finds_something() -> None:
    shapes = {rule.id: rule.shape for rule in rules(SMALL)}
    found = {shapes[query] for query in engine_counts(SMALL)}
    assert found == set(shapes.values())


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_what_an_engine_finds(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from braid.demo.__main__ import main; from braid.demo.stocks import Market\n"
        f"sys.exit(main({SMALL!r}, Path({str(tmp_path / 'out')!r})))"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6,000 events against 1,000 queries" in done.stdout
    found = Counter(row["query"] for row in matches(tmp_path / "out" / "matches"))
    assert found == engine_counts(SMALL)
