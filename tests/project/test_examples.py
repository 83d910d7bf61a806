"""The examples run, and say what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(*command: str, cwd: Path = ROOT) -> str:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_quickstart() -> None:
    shown = run("examples/quickstart.py")
    assert shown.count("IBM") == 2
    assert "97.0" in shown


def test_incremental() -> None:
    shown = run("examples/incremental.py")
    assert "Warming" in shown
    assert "Spreading" in shown
    assert "late" in shown


@pytest.mark.spark
def test_on_spark() -> None:
    shown = run("examples/on_spark.py")
    assert "301 events" in shown
    assert "after the restart: 0 events" in shown


def test_check_the_job() -> None:
    rules = [str(path) for path in sorted((EXAMPLES / "job" / "rules").glob("*.cel"))]
    shown = run("-m", "braid.cli.main", "check", *rules, "--streams", "examples/job/job.toml")
    assert "ok: 4 queries in 2 files" in shown


def test_explain_the_job() -> None:
    whole = run("-m", "braid.cli.main", "explain", "examples/job/job.toml")
    assert "rebound" in whole
    shown = run("-m", "braid.cli.main", "explain", "examples/job/job.toml", "--query", "rebound")
    assert "plan of query rebound" in shown.replace("'", "")
    assert len(shown) < len(whole)  # only its own m-ops, with those who share them
