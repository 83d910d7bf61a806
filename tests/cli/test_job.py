"""Job files: what is right is read, and every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from braid.cli.catalog import catalog_of
from braid.cli.job import AVAILABLE_NOW, Job, load_job, parse_rules
from braid.engine.options import Options
from braid.errors import BraidError, ConfigError, QueryErrors

GOOD = """
[job]
name = "prices"
checkpoint = "state"
trigger = "5 seconds"
shards = 4

[spark]
master = "local[2]"
conf = { "spark.driver.memory" = "4g" }

[[stream]]
name = "Stock"
format = "json"
path = "data"
options = { maxFilesPerTrigger = 1, multiLine = false }
schema = "Name STRING, Price DOUBLE, ts TIMESTAMP"
time = "ts"
lateness = "10 seconds"

[queries]
files = ["rules/*.cel"]

[[sink]]
output = "Jump"
format = "parquet"
path = "s3a://bucket/jump"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    for name in ("b.cel", "a.cel"):
        (tmp_path / "rules" / name).write_text("", encoding="utf-8")
    return tmp_path


def read(folder: Path, text: str) -> Job:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return load_job(path)


def mistakes(folder: Path, text: str) -> list[tuple[str, str]]:
    with pytest.raises(BraidError) as raised:
        read(folder, text)
    error = raised.value
    errors = error.errors if isinstance(error, QueryErrors) else [error]
    assert all(isinstance(e, ConfigError) for e in errors)
    return [(e.code, f"{e.message} {e.hint or ''}") for e in errors]


def test_a_whole_file(folder: Path) -> None:
    job = read(folder, GOOD)
    assert job.name == "prices"
    assert job.trigger == "5 seconds"
    assert job.options.shards == 4
    assert job.spark_conf == {"spark.driver.memory": "4g"}
    assert job.checkpoint == str(folder / "state")
    (stream,) = job.streams
    assert stream.path == str(folder / "data")
    assert stream.options == {"maxFilesPerTrigger": "1", "multiLine": "false"}
    assert stream.time == ("ts",)
    assert [p.name for p in job.query_files] == ["a.cel", "b.cel"]
    assert job.sinks[0].path == "s3a://bucket/jump"


MORE = """
[[prepared]]
name = "big"
file = "big.csv"
ids = "key"

[engine]
rules = { c_seq = false }
constraints = "monitored"
selection_join = "pdfa_grid"
member_set_bytes = 4096
watching = { window = 2000 }
selection.S = { form = "asc" }

[control]
path = "changes"
"""


def test_prepared_queries_rules_and_control(folder: Path) -> None:
    (folder / "big.csv").write_text("key\n1\n", encoding="utf-8")
    job = read(folder, GOOD + MORE)
    (prepared,) = job.prepared
    assert (prepared.name, prepared.file, prepared.ids) == ("big", folder / "big.csv", "key")
    assert "c_seq" not in job.options.rules
    assert job.control == str(folder / "changes")
    plain = read(folder, GOOD)
    assert (plain.prepared, plain.options, plain.control) == ((), Options(shards=4), None)
    assert job.options == Options(
        shards=4,
        rules={"c_seq": False},
        constraints="monitored",
        selection_join="pdfa_grid",
        member_set_bytes=4096,
        watching={"window": 2000},
        selection={"S": {"form": "asc"}},
    )


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ('"big.csv"', '"none.csv"', "E456", "there is no file"),
        ('file = "big.csv"', "", "E454", "[[prepared]] 'big' lacks 'file'"),
        ("ids =", "id =", "E453", "did you mean 'ids'?"),
        ("{ c_seq = false }", "7", "E455", 'rules = 7 is not "all", "none"'),
        ("{ c_seq = false }", '["c_sec"]', "E305", "there is no rule 'c_sec'"),
        ('"monitored"', '"sloppy"', "E468", "'sloppy' is not a mode"),
        ('"monitored"', "true", "E468", "True is not a mode"),
        ('"pdfa_grid"', '"quick"', "E325", "there is no form 'quick'"),
        ("4096", "-1", "E326", "must not be negative"),
        ("4096", '"much"', "E455", "is not a whole number"),
        ("window = 2000", "window = 2", "E318", "window = 2 is not a whole number of at least 10"),
        ("{ window = 2000 }", "7", "E318", "watching=7 is not a mapping"),
        ('"asc"', '"bitmap"', "E327", "form = 'bitmap' is not one of"),
        ('path = "changes"', "", "E454", "[control] lacks 'path'"),
        ("[control]", "[contrl]", "E453", "did you mean 'control'?"),
    ],
)
def test_mistakes_in_what_is_more(folder: Path, old: str, new: str, code: str, said: str) -> None:
    (folder / "big.csv").write_text("key\n1\n", encoding="utf-8")
    assert old in MORE
    found = mistakes(folder, GOOD + MORE.replace(old, new))
    assert [c for c, _ in found] == [code]
    assert said in found[0][1]


def test_rules_as_an_option() -> None:
    assert parse_rules(None) is None
    assert parse_rules("none") == "none"
    assert parse_rules("s_sigma, t_seq") == ["s_sigma", "t_seq"]
    assert parse_rules("-s_sigma,-inline") == {"s_sigma": False, "inline": False}
    with pytest.raises(ConfigError, match="E305"):
        parse_rules("all,s_sigma")


def test_what_is_left_out_has_a_default(folder: Path) -> None:
    text = '[queries]\nfiles = "rules/a.cel"\n[[stream]]\nname = "S"\nformat = "rate"\n'
    job = read(folder, text)
    assert job.name == "job"
    assert job.trigger == AVAILABLE_NOW
    assert job.checkpoint is None
    assert job.streams[0].time == ()


def test_dotted_settings_without_quotes(folder: Path) -> None:
    text = GOOD.replace('conf = { "spark.driver.memory" = "4g" }', "conf.spark.ui.enabled = true")
    assert read(folder, text).spark_conf == {"spark.ui.enabled": "true"}


def test_two_time_columns(folder: Path) -> None:
    text = GOOD.replace('time = "ts"', 'time = ["t0", "t1"]')
    assert read(folder, text).streams[0].time == ("t0", "t1")


def test_a_source_of_several_streams(folder: Path) -> None:
    more = '[[stream]]\nname = "Gold"\nformat = "json"\nschema = "Name STRING, ts TIMESTAMP"\n'
    text = GOOD.replace('name = "Stock"', 'name = ["Gold", "Basic"]') + more
    job = read(folder, text)
    assert [s.names for s in job.streams] == [("Gold", "Basic"), ("Gold",)]
    assert job.streams[0].name == "Gold + Basic"
    streams = catalog_of(job).streams
    assert {name: stream.sharable for name, stream in streams.items()} == {
        "Gold": ("Basic",),
        "Basic": ("Gold",),
    }


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ('name = "Stock"', 'name = ["A", "A"]', "E455", "a list of texts, each once"),
        ("lateness =", "latness =", "E453", "did you mean 'lateness'?"),
        ('format = "json"', "", "E454", "[[stream]] 'Stock' lacks 'format'"),
        ("shards = 4", "shards = 0", "E455", "positive whole number"),
        ('trigger = "5 seconds"', 'trigger = "often"', "E455", "available now"),
        ("shards = 4", 'shards = 4\nstall_timeout = "soon"', "E455", "is not a time"),
        ("shards = 4", 'shards = 4\nstall_timeout = "0 seconds"', "E455", "is not a time"),
        ('["rules/*.cel"]', '["rule/*.cel"]', "E456", "nothing matches 'rule/*.cel'"),
        ('["rules/*.cel"]', "[]", "E454", "names no files"),
        ('time = "ts"', 'time = ["a", "b", "c"]', "E455", "one column, or two"),
        ('lateness = "10 seconds"', "lateness = true", "E455", "lateness must be a time"),
        ('output = "Jump"', "", "E454", "[[sink]] 1 lacks 'output'"),
        ("[spark]", "[spork]", "E453", "did you mean 'spark'?"),
    ],
)
def test_mistakes(folder: Path, old: str, new: str, code: str, said: str) -> None:
    assert old in GOOD
    found = mistakes(folder, GOOD.replace(old, new))
    assert [c for c, _ in found] == [code]
    assert said in found[0][1]


def test_all_mistakes_at_once(folder: Path) -> None:
    text = GOOD.replace("shards = 4", "shard = 4").replace('"rules/*.cel"', '"none"')
    assert [code for code, _ in mistakes(folder, text)] == ["E453", "E456"]


def test_duplicate_streams(folder: Path) -> None:
    twice = '[[stream]]\nname = "Stock"\nformat = "rate"\n'
    assert [code for code, _ in mistakes(folder, GOOD + twice)] == ["E457"]


def test_not_toml(folder: Path) -> None:
    assert mistakes(folder, "[job\n")[0][0] == "E452"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no job file") as raised:
        load_job(tmp_path / "none.toml")
    assert raised.value.code == "E451"
