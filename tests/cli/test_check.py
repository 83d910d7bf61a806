"""`braid check` and the rest of the command line that needs no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from braid import __version__
from braid.cli.main import exit_code
from braid.errors import CheckpointError, ConfigError, QueryError, QueryErrors
from tests.cli.terminal import Terminal

STREAM = "CREATE STREAM Stock (Name STRING, Price DOUBLE, Volume BIGINT, ts TIMESTAMP) TIME ts;\n"
GOOD = "CREATE QUERY cheap AS SELECT * FROM FILTER{Price < 5}(Stock) PUBLISH Cheap;\n"
READER = "CREATE QUERY twice AS SELECT * FROM FILTER{Volume > 2}(Cheap);\n"
BAD = "CREATE QUERY bad AS SELECT * FROM FILTER{Prise < 5}(Stock);\n"
UNBOUNDED = (
    "CREATE QUERY ever AS SELECT * FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > 5} Stock;\n"
)

JOB = """
[[stream]]
name = "Stock"
format = "json"
schema = "Name STRING, Price DOUBLE, Volume BIGINT, ts TIMESTAMP"
time = "ts"

[queries]
files = ["*.cel"]
"""


def test_version(terminal: Terminal) -> None:
    assert terminal.run("version") == 0
    assert terminal.out == f"braid {__version__}\n"


def test_version_as_an_option(terminal: Terminal) -> None:
    assert terminal.run("--version") == 0
    assert terminal.out == f"braid {__version__}\n"


def test_a_folder(terminal: Terminal) -> None:
    terminal.file("rules/a/reader.cel", READER)
    terminal.file("rules/b/good.sql", STREAM + GOOD)
    terminal.file("rules/readme.md", "not a query")
    assert terminal.run("check", "rules") == 0
    assert "2 queries in 2 files" in terminal.out
    assert terminal.run("check", "rules/**/*.cel", "rules/b") == 0
    assert terminal.run("check", "other") == 2
    assert "E456" in terminal.err


def test_good_file(terminal: Terminal) -> None:
    assert terminal.run("check", terminal.file("a.cel", STREAM + GOOD)) == 0
    assert terminal.out == "ok: 1 query in 1 file\n"


def test_every_error_of_every_file(terminal: Terminal) -> None:
    terminal.file("a.cel", STREAM + BAD + GOOD + "SELECT FROM;\n")
    terminal.file("b.cel", "SELECT * FROM Stok;\n")
    assert terminal.run("check", "*.cel") == 1
    assert "a.cel:2:" in terminal.err
    assert "^^^^^" in terminal.err
    assert "Price" in terminal.err
    assert "a.cel:4:" in terminal.err
    assert "b.cel:1:" in terminal.err
    assert "in 2 files" in terminal.err


def test_streams_of_a_job_file(terminal: Terminal) -> None:
    terminal.file("a.cel", GOOD)
    assert terminal.run("check", "a.cel") == 1
    terminal.file("job.toml", JOB)
    assert terminal.run("check", "a.cel", "--streams", "job.toml") == 0


def test_files_may_read_what_later_ones_publish(terminal: Terminal) -> None:
    terminal.file("a.cel", READER)
    terminal.file("b.cel", STREAM + GOOD)
    assert terminal.run("check", "a.cel", "b.cel") == 0
    assert terminal.out == "ok: 2 queries in 2 files\n"


def test_warnings_are_shown(terminal: Terminal) -> None:
    assert terminal.run("check", terminal.file("a.cel", STREAM + UNBOUNDED)) == 0
    assert "warning[W" in terminal.err
    assert "'ever'" in terminal.err


def test_a_stream_without_schema(terminal: Terminal) -> None:
    terminal.file("a.cel", GOOD)
    lines = [line for line in JOB.splitlines() if not line.startswith("schema")]
    terminal.file("job.toml", "\n".join(lines))
    assert terminal.run("check", "a.cel", "--streams", "job.toml") == 2
    assert "error[E458]" in terminal.err


def test_a_time_column_that_is_none(terminal: Terminal) -> None:
    terminal.file("a.cel", GOOD)
    terminal.file("job.toml", JOB.replace('time = "ts"', 'time = "when"'))
    assert terminal.run("check", "a.cel", "--streams", "job.toml") == 2
    assert "when" in terminal.err


def test_a_schema_that_is_none(terminal: Terminal) -> None:
    terminal.file("a.cel", GOOD)
    terminal.file("job.toml", JOB.replace("DOUBLE", "DUBLE"))
    assert terminal.run("check", "a.cel", "--streams", "job.toml") == 1
    assert "DUBLE" in terminal.err


def test_no_such_file(terminal: Terminal) -> None:
    assert terminal.run("check", "none.cel") == 2
    assert "nothing matches 'none.cel'" in terminal.err


def test_wrong_job_file(terminal: Terminal) -> None:
    assert terminal.run("run", "none.toml") == 2
    assert "there is no job file" in terminal.err


def test_exit_codes_by_kind_of_mistake() -> None:
    wrong, config = QueryError("E100", "x"), ConfigError("E451", "x")
    assert exit_code(wrong) == 1
    assert exit_code(config) == 2
    assert exit_code(CheckpointError("E410", "x")) == 4
    assert exit_code(QueryErrors([wrong, config])) == 2


def test_unknown_command(terminal: Terminal) -> None:
    assert terminal.run("chek") == 2


def test_check_needs_neither_spark_nor_java(tmp_path: Path) -> None:
    (tmp_path / "a.cel").write_text(STREAM + GOOD, encoding="utf-8")
    code = (
        "import sys; from braid.cli.main import app, guarded\n"
        "status = guarded(lambda: app(['check', 'a.cel']))\n"
        "assert 'pyspark' not in sys.modules and 'numba' not in sys.modules\n"
        "sys.exit(status)"
    )
    env = {"PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True)


def test_a_constraint_that_is_not_used(terminal: Terminal) -> None:
    """Which it is, is known when all queries are there."""
    terminal.file(
        "a.cel",
        """
        CREATE STREAM A (x BIGINT, t BIGINT) TIME t;
        CREATE STREAM B (x BIGINT, y BIGINT, t BIGINT) TIME t;
        CREATE CONSTRAINT rising ON A (x) ASCENDING;
        CREATE QUERY one AS Select y From A [Range 9], B [Range 9] Where A.x = B.x And y > 1;
        """,
    )
    assert terminal.run("check", "a.cel") == 0
    assert "W207" not in terminal.err
    terminal.file(
        "b.cel",
        "CREATE QUERY two AS Select y From A [Range 9], B [Range 9] Where A.x = B.x And y > 2;",
    )
    for command in (("check", "*.cel"), ("explain", "a.cel", "b.cel")):
        assert terminal.run(*command) == 0
        assert terminal.err.count("W207") == 2
        assert "constraint 'rising'" in terminal.err
