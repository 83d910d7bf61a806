"""`braid query add|drop|list`: changes are checked, and left where the running job finds them."""

from __future__ import annotations

import io
import json

import pytest

from braid.cli.changes import event_time
from braid.errors import ConfigError
from tests.cli.terminal import Terminal

JOB = """
[job]
checkpoint = "state"
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
[control]
path = "changes"
"""
QUERIES = """
CREATE QUERY cheap AS SELECT * FROM FILTER{Price < 5}(Stock) PUBLISH Cheap;
CREATE QUERY big FOR EACH (who STRING) AS SELECT * FROM FILTER{Name = :who}(Stock) PUBLISH Big;
"""
NEW = "SELECT Name FROM FILTER{Price > 3}(Cheap) PUBLISH New"


@pytest.fixture
def job(terminal: Terminal) -> Terminal:
    terminal.file("job.toml", JOB)
    terminal.file("a.cel", QUERIES)
    terminal.file("big.csv", "id,who\nx,IBM\ny,Dell\n")
    return terminal


def add(job: Terminal, query: str, text: str, *options: str) -> int:
    return job.run("query", "add", "--job", "job.toml", "--id", query, text, *options)


def drop(job: Terminal, query: str, *options: str) -> int:
    return job.run("query", "drop", "--job", "job.toml", "--id", query, *options)


def listed(job: Terminal) -> dict[str, str]:
    assert job.run("query", "list", "--job", "job.toml") == 0
    return {line.split()[0]: line for line in job.out.splitlines()[1:] if line[2] != " "}


def changes(job: Terminal) -> list[dict[str, object]]:
    files = sorted((job.folder / "changes").iterdir())
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def test_a_change_is_one_file(job: Terminal) -> None:
    assert add(job, "new", NEW, "--at", "2024-01-31 10:00:00+01:00") == 0
    assert "to add 'new', from 2024-01-31T09:00:00.000000Z on" in job.out
    assert drop(job, "big/x") == 0
    first, second = changes(job)
    assert first.pop("seq") < second.pop("seq")
    assert first == {"op": "add", "id": "new", "text": NEW, "at": "2024-01-31T09:00:00.000000Z"}
    assert second == {"op": "drop", "id": "big/x", "text": None, "at": None}
    names = [file.name for file in (job.folder / "changes").iterdir()]
    assert all(name.endswith(".json") for name in names)


def test_what_an_added_query_publishes_is_no_output_yet(job: Terminal) -> None:
    assert add(job, "plain", NEW.removesuffix(" PUBLISH New")) == 0
    assert "matches" not in job.out
    assert add(job, "new", NEW) == 0
    assert "the results that it publishes (New) are in the output 'matches'" in job.out


def test_a_query_from_a_file_or_the_standard_input(
    job: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.file("new.txt", NEW)
    assert job.run("query", "add", "--job", "job.toml", "--id", "new", "--file", "new.txt") == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("FROM FILTER{Price > 9} Stock"))
    assert job.run("query", "add", "--job", "job.toml", "--id", "in", "--file", "-") == 0
    assert [change["text"] for change in changes(job)] == [NEW, "FROM FILTER{Price > 9} Stock"]
    assert job.run("query", "add", "--job", "job.toml", "--id", "q") == 2
    assert job.run("query", "add", "--job", "job.toml", "--id", "q", NEW, "--file", "new.txt") == 2
    assert job.run("query", "add", "--job", "job.toml", "--id", "q", "--file", "none.txt") == 2


def test_wrong_queries_are_not_asked_for(job: Terminal) -> None:
    assert add(job, "bad", "SELECT Nome FROM Stock") == 1
    assert "error[E103]" in job.err
    assert "^^^^" in job.err
    assert add(job, "cheap", "SELECT Name FROM Stock") == 1
    assert "error[E131]" in job.err
    assert add(job, "other", "SELECT Name FROM Stock PUBLISH Cheap") == 1
    assert "error[E132]" in job.err
    assert add(job, "each", "CREATE QUERY each FOR EACH (n STRING) AS FROM FILTER{Name = :n} Stock")
    assert "error[E164]" in job.err
    assert not (job.folder / "changes").exists()


def test_changes_are_checked_after_those_before_them(job: Terminal) -> None:
    assert add(job, "new", NEW) == 0
    assert add(job, "new", NEW) == 1
    assert "error[E131]" in job.err
    assert add(job, "reader", "SELECT Name FROM New") == 0
    assert drop(job, "new") == 1
    assert "error[E135]" in job.err
    assert drop(job, "reader") == 0
    assert drop(job, "new") == 0
    assert drop(job, "new") == 1
    assert "error[E134]" in job.err


def test_warnings_are_shown(job: Terminal) -> None:
    assert add(job, "ever", "FROM Stock NEXT{$1.Name = $2.Name} Stock") == 0
    assert "warning[W201]" in job.err


def test_list_shows_what_is_and_what_was_asked_for(job: Terminal) -> None:
    assert add(job, "new", NEW) == 0
    assert drop(job, "big/x", "--at", "1706691600000000") == 0
    found = listed(job)
    assert "job file" in found["cheap"]
    assert "2 members" in found["big/..."]
    assert "requested" in found["new"]
    assert "2024-01-31T09:00:00" in found["big/x"]


def test_list_knows_from_the_figures_what_was_applied(job: Terminal) -> None:
    add(job, "new", NEW)
    add(job, "later", "FROM Stock")
    drop(job, "big/y")
    job_changes = {"added": ["new"], "dropped": ["big/y"], "waiting": ["later"]}
    job.file("state/braid-stats.json", json.dumps({"totals": {}, "changes": job_changes}))
    found = listed(job)
    assert "applied" in found["new"]
    assert "applied" in found["big/y"]
    assert "waits" in found["later"]


def test_list_knows_what_will_be_rejected(job: Terminal) -> None:
    add(job, "new", NEW)
    job.file("a.cel", QUERIES.replace("PUBLISH Cheap", "PUBLISH Cheaper"))
    assert "rejected: [E105]" in listed(job)["new"]


def test_a_job_that_takes_no_changes(job: Terminal) -> None:
    job.file("job.toml", JOB.replace('[control]\npath = "changes"', ""))
    assert add(job, "new", NEW) == 2
    assert "error[E464]" in job.err
    assert "cheap" in listed(job)


def test_what_is_no_change(job: Terminal) -> None:
    job.file("changes/1.json", "nonsense\n")
    assert job.run("query", "list", "--job", "job.toml") == 2
    assert "error[E463]" in job.err


def test_files_that_are_being_written_are_passed_over(job: Terminal) -> None:
    job.file("changes/.1.json.part", "{")
    assert "cheap" in listed(job)


def test_times() -> None:
    assert event_time(None, "us") is None
    assert event_time("2024-01-31", "us") == "2024-01-31T00:00:00.000000Z"
    assert event_time("-1", "us") == "1969-12-31T23:59:59.999999Z"
    assert event_time("12", "tick") == 12
    for text, unit in (("soon", "us"), ("9" * 30, "us"), ("2024-01-31", "tick")):
        with pytest.raises(ConfigError, match="E465"):
            event_time(text, unit)


def taken(job: Terminal, number: int, **said: object) -> None:
    """What a running job writes of the change that was asked for as the n-th."""
    asked_for = changes(job)[number]
    known = {key: asked_for[key] for key in ("op", "id", "seq")}
    line = {**known, "state": "applied", "at": None, "reason": None, **said}
    folder = job.folder / "state" / "braid" / "changes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:020d}.json").write_text(json.dumps(line) + "\n")


def test_whoever_asks_is_told_from_when_a_change_holds(
    job: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job writes it while the command waits."""
    job.file("state/braid-stats.json", json.dumps({"totals": {}}))
    said: dict[str, object] = {"at": "2024-01-31T09:00:07.000000Z"}

    def job_takes_it(_seconds: float) -> None:
        taken(job, len(changes(job)) - 1, **said)

    monkeypatch.setattr("braid.cli.query.time.sleep", job_takes_it)
    assert add(job, "new", NEW) == 0
    assert "'new' sees the events that start at 2024-01-31T09:00:07.000000Z or later" in job.out
    assert drop(job, "big/x") == 0
    assert "'big/x' gives nothing that ends at 2024-01-31T09:00:07.000000Z" in job.out
    said = {"at": None}
    assert add(job, "first", "FROM Stock") == 0
    assert "'first' sees the events that start at the beginning or later" in job.out
    said = {"at": None, "state": "waiting"}
    assert add(job, "waits", "FROM Stock") == 0
    assert "'waits' waits until the job has started again" in job.out
    said = {"at": None, "state": "refused", "reason": "at is in the past"}
    assert add(job, "old", "FROM Stock") == 2
    assert "error[E470]" in job.err
    assert "at is in the past" in job.err
    found = listed(job)
    assert "applied" in found["new"]
    assert "2024-01-31T09:00:07.000000Z" in found["new"]
    assert "applied, from the beginning" in found["first"]
    assert "waits for the job" in found["waits"]
    assert "rejected: at is in the past" in found["old"]


def test_a_job_that_does_not_take_a_change_in_time(job: Terminal) -> None:
    job.file("state/braid-stats.json", json.dumps({"totals": {}}))
    assert add(job, "new", NEW, "--wait", "0.05") == 0
    assert "has not accepted it within 0.05 seconds" in job.out
    assert add(job, "newer", "FROM Stock", "--wait", "0") == 0
    assert "`braid query list` shows" in job.out
    job.file("state/braid/changes/1.json", "nonsense\n")
    assert job.run("query", "list", "--job", "job.toml") == 2
    assert "error[E463]" in job.err
