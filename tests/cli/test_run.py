"""`braid run`: what is wrong is said before Spark starts; Ctrl-C stops cleanly, and it resumes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.json
import pytest

import braid
from braid.cli.catalog import parse_schema
from braid.cli.job import SinkConfig, load_job
from braid.cli.main import app, exit_code, guarded
from braid.cli.run import (
    TableWriter,
    cause_of,
    output_of_children,
    report_failure,
    resume_hint,
    writer_of,
)
from braid.errors import PipelineError

EXAMPLE = Path(__file__).parents[2] / "examples" / "job"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The example's job file, in a directory of its own."""
    folder = tmp_path / "job"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("output"))
    return folder / "job.toml"


def change(job: Path, old: str, new: str) -> None:
    text = job.read_text(encoding="utf-8")
    assert old in text
    job.write_text(text.replace(old, new), encoding="utf-8")


def test_wrong_queries_are_found_before_spark(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.parent / "rules" / "wrong.cel").write_text("SELECT * FROM FILTER{Prise > 1}(Stock);")
    assert guarded(lambda: app(["run", str(job)])) == 1
    shown = capsys.readouterr().err
    assert "wrong.cel:1:" in shown
    assert "starting Spark" not in shown


def test_a_lost_pipeline_is_one_error(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hint and the way to resume on the screen, what Spark said in the log."""
    lost = PipelineError("E418", "a Python worker is gone", "start it again")
    lost.__cause__ = RuntimeError("pages of Java")
    log = tmp_path / "log"
    log.write_text("what workers wrote")
    report_failure(load_job(job), lost, log)
    shown = capsys.readouterr().err
    assert "error[E418]: a Python worker is gone" in shown
    assert "To resume where it stopped: braid run" in shown
    assert log.read_text() == "pages of Java\n\nwhat workers wrote"
    assert exit_code(lost) == 3


def test_sinks_of_nothing(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(job, 'output = "Rebound"', 'output = "Rebond"')
    assert guarded(lambda: app(["run", str(job)])) == 2
    shown = capsys.readouterr().err
    assert "error[E459]" in shown
    assert "Rebound" in shown


def test_a_checkpoint_is_needed(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(job, 'checkpoint = "output/checkpoint"', "")
    assert guarded(lambda: app(["run", str(job)])) == 2
    assert "--checkpoint" in capsys.readouterr().err


def test_explain_needs_a_query_that_exists(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(lambda: app(["explain", str(job), "--query", "rebond"])) == 2
    assert "rebound" in capsys.readouterr().err


def test_how_to_resume(job: Path) -> None:
    assert resume_hint(load_job(job)) == f"To resume where it stopped: braid run {job}"


def test_sinks() -> None:
    assert writer_of(SinkConfig("matches", "console", None, {})) == "console"
    assert writer_of(SinkConfig("matches", "json", "out", {})).format == "json"
    assert isinstance(writer_of(SinkConfig("matches", "kafka", None, {})), TableWriter)


def test_the_cause_in_a_page_of_traces() -> None:
    text = """[STREAM_FAILED] Query terminated with exception: An exception was raised
Traceback (most recent call last):
  File "sink.py", line 1, in write
    raise ValueError("the disk is full")
ValueError: the disk is full
\tat py4j.Protocol.getReturnValue(Protocol.java:476)"""
    assert cause_of(RuntimeError(text)) == "ValueError: the disk is full"
    assert cause_of(RuntimeError("[PATH] gone\nJVM stacktrace")) == "[PATH] gone"
    assert cause_of(RuntimeError()) == "RuntimeError"


def test_failures_leave_their_log(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("from the JVM", encoding="utf-8")
    report_failure(load_job(job), RuntimeError("what\nwhere"), log)
    shown = capsys.readouterr().err
    assert "the pipeline failed: what" in shown
    assert str(log) in shown
    assert log.read_text("utf-8") == "what\nwhere\n\nfrom the JVM"


def test_output_of_children_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with output_of_children(log):
        subprocess.run([sys.executable, "-c", "print('said')"], check=True)
    assert log.read_text("utf-8") == "said\n"


def start(job: Path) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "braid.cli.main", "run", str(job)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def rows(job: Path) -> list[tuple[str, float, float]]:
    files = (job.parent / "output" / "rebound").rglob("*.json")
    lines = (line for file in files for line in file.read_text("utf-8").splitlines())
    return sorted((r["Name"], r["low"], r["high"]) for r in map(json.loads, lines))


def expected_rows(job: Path) -> list[tuple[str, float, float]]:
    """The same files through an engine in process, one after another, with no end of the input."""
    engine = braid.Engine()
    config = load_job(job).streams[0]
    assert config.schema is not None
    schema = parse_schema(config.name, config.schema)
    engine.stream("Stock", schema, time="ts", lateness=config.lateness)
    engine.load(job.parent / "rules" / "patterns.cel")
    found: list[tuple[str, float, float]] = []
    for file in sorted((job.parent / "data").iterdir()):
        table = pyarrow.json.read_json(file).select(schema.names)
        out = engine.process({"Stock": table.cast(schema)})["Rebound"]
        found.extend((r["Name"], r["low"], r["high"]) for r in out.to_pylist())
    return sorted(found)


MORE = """
[[prepared]]
name = "big"
file = "big.csv"

[control]
path = "output/changes"
"""
BIG = """CREATE QUERY big FOR EACH (who STRING, floor DOUBLE) AS
  SELECT Name, Price FROM FILTER{Name = :who AND Price > :floor}(Stock) PUBLISH Big;"""


@pytest.mark.spark
def test_prepared_queries_changes_and_figures(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job with rows of parameters is asked for a query, runs, and tells what became of it."""
    with job.open("a", encoding="utf-8") as file:
        file.write(MORE)
    (job.parent / "rules" / "big.cel").write_text(BIG, encoding="utf-8")
    (job.parent / "big.csv").write_text("id,who,floor\n1,IBM,5\n2,Dell,x\n", encoding="utf-8")
    asked = ["query", "add", "--job", str(job), "--id", "new", "SELECT Name FROM Stock"]
    assert guarded(lambda: app(asked)) == 0
    running = start(job)
    shown = running.communicate(timeout=300)[1]
    assert running.returncode == 0, shown
    assert "prepared query 'big': 1 row refused" in shown
    capsys.readouterr()
    assert guarded(lambda: app(["stats", "--job", str(job), "--format", "json"])) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["queries"]["big/1"]["matches"] > 0
    assert figures["progress"]["events"] == 301
    assert guarded(lambda: app(["query", "list", "--job", str(job)])) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " new " in line]
    assert "applied" in line


@pytest.mark.spark
def test_ctrl_c_and_resume(job: Path) -> None:
    """Stopped after the first of three files, then resumed: what an undisturbed engine gives."""
    for number, file in enumerate(sorted((job.parent / "data").iterdir())):
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes the oldest files first
    change(job, 'path = "data"', 'path = "data"\noptions = { maxFilesPerTrigger = 1 }')
    expected = expected_rows(job)

    change(job, 'trigger = "available now"', 'trigger = "1 hour"')
    stopped = start(job)
    assert stopped.stderr is not None
    shown = ""
    while " events (" not in shown or shown.count(" 0 events ("):
        shown = stopped.stderr.readline()
        assert shown, "it ended before its first batch"
    # A batch is shown just before it is committed; one that is not would be run again.
    while not (job.parent / "output" / "checkpoint" / "commits" / "0").exists():
        with pytest.raises(subprocess.TimeoutExpired):
            stopped.wait(0.02)
    stopped.send_signal(signal.SIGINT)
    rest = stopped.communicate(timeout=120)[1]
    assert stopped.returncode == 130
    assert f"To resume where it stopped: braid run {job}" in rest
    assert "Traceback" not in rest
    assert len(rows(job)) < len(expected)

    change(job, 'trigger = "1 hour"', 'trigger = "available now"')
    resumed = start(job)
    assert "201 events" in resumed.communicate()[1]
    assert resumed.returncode == 0
    assert rows(job) == expected
