"""`braid explain`: query files or a job, as text, JSON or a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from tests.cli.terminal import Terminal

STREAM = "CREATE STREAM Stock (Name STRING, Price DOUBLE, ts TIMESTAMP) TIME ts;\n"
QUERIES = """
CREATE QUERY cheap AS SELECT * FROM FILTER{Price < 5}(Stock) PUBLISH Cheap;
CREATE QUERY up AS SELECT Name FROM
  Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price AND DUR <= 10 s} Stock PUBLISH Up;
CREATE QUERY big FOR EACH (who STRING, floor DOUBLE) AS
  SELECT * FROM FILTER{Name = :who AND Price > :floor}(Stock) PUBLISH Big;
"""
JOB = """
[job]
shards = 4
[[stream]]
name = "Stock"
format = "json"
schema = "Name STRING, Price DOUBLE, ts TIMESTAMP"
time = "ts"
[queries]
files = ["*.cel"]
[[prepared]]
name = "big"
file = "big.csv"
"""
ROWS = "id,who,floor\n1,IBM,5\n2,Dell,x\n3,Acme,7\n"


@pytest.fixture
def job(terminal: Terminal) -> Terminal:
    terminal.file("a.cel", QUERIES)
    terminal.file("big.csv", ROWS)
    terminal.file("job.toml", JOB)
    return terminal


def test_query_files(terminal: Terminal) -> None:
    terminal.file("a.cel", STREAM + QUERIES)
    assert terminal.run("explain", "*.cel") == 0
    assert "hash on $2.Name = $1.Name" in terminal.out
    assert "expires after 10 s" in terminal.out


def test_a_job_and_where_its_queries_run(job: Terminal) -> None:
    assert job.run("explain", "--job", "job.toml") == 0
    assert "plan of 4 queries: 2 m-ops, 3 exits" in job.out
    assert "keyed: Stock by Name" in job.out
    assert "prepared query 'big': 1 row refused" in job.err
    assert "row 1 (id='2', who='Dell', floor='x')" in job.err


def test_a_job_file_as_the_only_file(job: Terminal) -> None:
    assert job.run("explain", "--job", "job.toml") == 0
    shown = job.out
    assert job.run("explain", "job.toml") == 0
    assert job.out == shown


def test_files_over_the_streams_of_a_job(job: Terminal) -> None:
    job.file("other/b.txt", "CREATE QUERY one AS FROM FILTER{Price > 1} Stock;")
    assert job.run("explain", "other/b.txt", "--job", "job.toml") == 0
    assert "plan of 1 query" in job.out


def test_one_query(job: Terminal) -> None:
    assert job.run("explain", "job.toml", "--query", "up") == 0
    assert "automaton up" in job.out
    assert "Cheap" not in job.out
    assert job.run("explain", "job.toml", "--query", "big") == 0
    assert "2 queries like big/1" in job.out
    assert job.run("explain", "job.toml", "--query", "nobody") == 2
    assert "error[E460]" in job.err
    assert "cheap" in job.err


def test_json(job: Terminal) -> None:
    assert job.run("explain", "job.toml", "--format", "json") == 0
    found = json.loads(job.out)
    assert [mop["kind"] for mop in found["mops"]] == ["selection", "sequence"]
    assert found["distribution"][0].startswith("4 shards")


def test_a_picture_in_a_file(job: Terminal) -> None:
    assert job.run("explain", "job.toml", "--format", "svg", "--output", "plan.svg") == 0
    assert job.out == ""
    root = ET.parse(job.folder / "plan.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert job.run("explain", "job.toml", "--output", "no/where.txt") == 2
    assert "error[E463]" in job.err


def test_rules(job: Terminal) -> None:
    assert job.run("explain", "job.toml", "--rules", "none") == 0
    assert "merged by no rule" in job.out
    assert job.run("explain", "job.toml", "--rules=-s_sigma,-c_sigma") == 0
    assert "merged by d_sigma" in job.out
    job.file("job.toml", JOB + '[engine]\nrules = "none"\n')
    assert job.run("explain", "job.toml") == 0
    assert "merged by no rule" in job.out
    assert job.run("explain", "job.toml", "--rules", "all") == 0
    assert "merged by no rule" not in job.out
    assert job.run("explain", "job.toml", "--rules", "nothing") == 2
    assert "error[E305]" in job.err


def test_rows_as_parquet(job: Terminal) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = pa.table({"who": ["a", "b", "c"], "floor": [1.0, 2.0, 3.0], "name": ["x", "y", "z"]})
    parquet.write_table(rows, job.folder / "big.parquet")
    change = JOB.replace('"big.csv"', '"big.parquet"\nids = "name"')
    job.file("job.toml", change)
    assert job.run("explain", "job.toml", "--query", "big/y") == 0
    assert "3 queries like big/x" in job.out
    job.file("big.parquet", "nonsense")
    assert job.run("explain", "job.toml") == 2
    assert "error[E165]" in job.err


def test_a_prepared_query_that_is_none(job: Terminal) -> None:
    job.file("job.toml", JOB.replace('name = "big"', 'name = "bigger"'))
    assert job.run("explain", "job.toml") != 0
    assert "error[E173]" in job.err


def test_errors_of_queries(terminal: Terminal) -> None:
    terminal.file("a.cel", STREAM + "CREATE QUERY bad AS FROM FILTER{Prise < 5}(Stock);")
    assert terminal.run("explain", "a.cel") == 1
    assert "a.cel:2:" in terminal.err
    assert terminal.run("explain") == 2
    assert "error[E466]" in terminal.err
