"""Options: declared once, and known to engines, sessions, job files, snapshots and checkpoints.

These tests iterate over the fields of `Options`. A new option needs no change here.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

import braid
from braid.cli.job import Job, load_job
from braid.distribution.distribution import distribute
from braid.engine import options as module
from braid.engine import snapshot
from braid.engine.options import Option, Options, ShardOptions, all_options
from braid.engine.shard import Shard
from braid.errors import BraidError, CheckpointError, ConfigError, QueryErrors
from braid.lang import Catalog, load
from braid.operators.core.base import Context
from braid.operators.core.selection_choice import Choice
from braid.spark import session as sessions
from braid.spark.shards import checkpoint
from braid.spark.shards.checkpoint import SavedPlan
from tests.engine.snapshot_parts import opened, sealed

OPTIONS = all_options()
OF_ENGINES = [name for name, option in OPTIONS.items() if not option.session_only]

every_option = pytest.mark.parametrize("name", OPTIONS)


def other(name: str) -> Options:
    """The defaults but for one option."""
    return Options(**{name: OPTIONS[name].example})


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


class NoSpark:
    """As much of a Spark session as a session asks of it before it starts."""

    def __init__(self) -> None:
        self.conf = Conf()


def session(monkeypatch: pytest.MonkeyPatch, **given: Any) -> sessions.Session:
    monkeypatch.setattr(sessions, "prepare", lambda: None)
    spark: Any = NoSpark()
    return sessions.Session(spark, **given)


def test_every_field_is_declared_as_an_option() -> None:
    assert [field.name for field in fields(Options)] == list(OPTIONS)
    assert all(isinstance(option, Option) for option in OPTIONS.values())


@every_option
def test_an_option_has_one_form(name: str) -> None:
    option, made = OPTIONS[name], other(name)
    kept = getattr(made, name)
    assert kept != getattr(Options(), name), "the example is not the default"
    assert option.checked(kept) == kept, "what is kept is taken as well"
    assert option.checked(option.to_json(kept)) == kept
    assert pickle.loads(pickle.dumps(made)) == made


@every_option
def test_json_and_back(name: str) -> None:
    made = other(name)
    text = json.dumps(made.to_json())
    assert Options.from_json(json.loads(text)) == made
    assert replace(made, **Options().to_json()) == Options()


def test_an_option_that_is_newer_than_the_saved_state_has_its_default() -> None:
    assert Options.from_json({}) == Options()


def test_an_option_that_only_another_version_has() -> None:
    with pytest.raises(CheckpointError, match=r"E420.*'speed'"):
        Options.from_json({"speed": 3})


@every_option
def test_a_value_of_the_wrong_kind(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        Options(**{name: object()})
    assert caught.value.code == OPTIONS[name].code


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"instance_budget": 0}, "E302", "instance_budget must be at least 1"),
        ({"instance_budget": True}, "E302", "is not a whole number"),
        ({"idle_timeout": "soon"}, "E113", "is not a duration"),
        ({"idle_timeout": -1}, "E113", "is not a time"),
        ({"rules": {"c_seq": "no"}}, "E305", "a mapping of names"),
        ({"rules": ["c_sec"]}, "E305", "there is no rule 'c_sec'"),
        ({"spill_above": -1}, "E317", "must not be negative"),
        ({"member_set_bytes": -1}, "E326", "must not be negative"),
        ({"shards": 0}, "E409", "is not a positive whole number"),
        ({"stall_timeout": "0 s"}, "E409", "is not a time above 0"),
    ],
)
def test_values_that_cannot_be(given: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Options(**given)
    assert caught.value.code == code


def test_times_without_end() -> None:
    for name in ("idle_timeout", "stall_timeout"):
        assert getattr(Options(**{name: "never"}), name) is None
        assert getattr(Options(**{name: None}), name) is None


@dataclass(frozen=True)
class WithSpeed(Options):
    """What `Options` is after somebody has declared another option."""

    speed: Option[int, int] = Option(  # noqa: RUF009 -- a descriptor
        1, 7, doc="How fast.", takes="a whole number", code="E302", convert=int
    )


def test_a_new_option_needs_its_declaration_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (module, snapshot, checkpoint):
        monkeypatch.setattr(place, "Options", WithSpeed)
    monkeypatch.setitem(OPTIONS, "speed", all_options()["speed"])
    made = braid.Engine(speed=7)
    assert made.options == WithSpeed(speed=7)
    assert braid.Engine.restore(made.snapshot()).options == WithSpeed(speed=7)
    assert session(monkeypatch, speed=7).options == WithSpeed(speed=7)
    assert job(tmp_path, "speed", "7").options == WithSpeed(speed=7)
    with pytest.raises(ConfigError, match=r"E455.*\[engine\] speed = 'x' is not a whole number"):
        job(tmp_path, "speed", '"x"')
    plan = SavedPlan.of(distribute([], {}, 2), options=ShardOptions(WithSpeed(speed=7)))
    assert SavedPlan.from_json(plan.to_json()).options == WithSpeed(speed=7)


# ---- engines ----


@pytest.mark.parametrize("name", OF_ENGINES)
def test_an_engine_takes_it(name: str) -> None:
    by_name = braid.Engine(**{name: OPTIONS[name].example})
    assert by_name.options == braid.Engine(options=other(name)).options == other(name)
    assert by_name._running().options.user == other(name)


def test_a_name_overrides_options() -> None:
    options = Options(instance_budget=7, idle_timeout="5 s")
    made = braid.Engine(options=options, idle_timeout=None)
    assert made.options == Options(instance_budget=7, idle_timeout=None)


@every_option
def test_a_snapshot_has_it(name: str) -> None:
    made = braid.Engine(options=other(name))
    assert braid.Engine.restore(made.snapshot()).options == other(name)


def test_a_snapshot_that_is_older_than_an_option() -> None:
    header, pages = opened(braid.Engine(instance_budget=7).snapshot())
    del header["options"]["idle_timeout"]
    assert braid.Engine.restore(sealed(header, pages)).options == Options(instance_budget=7)


def test_a_misspelt_option() -> None:
    with pytest.raises(TypeError, match=r"Engine has no option 'idle_timout'.*'idle_timeout'"):
        braid.Engine(idle_timout=3)
    with pytest.raises(TypeError, match="no option 'xyz'; options: instance_budget, "):
        braid.Engine(xyz=3)
    with pytest.raises(TypeError, match="Engine has no option 'shards'"):
        braid.Engine(shards=3)


def test_contexts_have_the_same_defaults() -> None:
    context, options = Context(), Options()
    assert context.selection_join == Choice(options.selection_join, options.member_set_bytes)
    assert context.selections == options.selection
    for name in ("instance_budget", "spill_above", "watching"):
        assert getattr(context, name) == getattr(options, name)


# ---- sessions ----


@every_option
def test_a_session_takes_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = session(monkeypatch, **{name: OPTIONS[name].example})
    assert by_name.options == session(monkeypatch, options=other(name)).options == other(name)
    assert by_name._shard_options().user == other(name)


def test_a_misspelt_option_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match=r"Session has no option 'shard'.*'shards'"):
        session(monkeypatch, shard=3)


# ---- job files ----


def toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(v)}" for name, v in value.items()) + " }"
    return json.dumps(value)


def job(folder: Path, name: str, value: str) -> Job:
    (folder / "a.cel").write_text("SELECT * FROM S;", encoding="utf-8")
    text = f"""
        [{OPTIONS[name].table}]
        {name} = {value}
        [queries]
        files = "a.cel"
        [[stream]]
        name = "S"
        format = "rate"
        """
    (folder / "job.toml").write_text(text, encoding="utf-8")
    return load_job(folder / "job.toml")


@every_option
def test_a_job_file_takes_it(name: str, tmp_path: Path) -> None:
    assert job(tmp_path, name, toml(OPTIONS[name].example)).options == other(name)


@every_option
def test_a_job_file_with_a_value_of_the_wrong_kind(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        job(tmp_path, name, "1979-05-27")
    assert not isinstance(caught.value, QueryErrors)
    assert f"[{OPTIONS[name].table}] {name}" in caught.value.message


# ---- checkpoints ----


def restart(then: Options, now: Options) -> None:
    """What happens on the driver and in a shard when a pipeline goes on with other options."""
    known = Catalog()
    load("CREATE STREAM S (x BIGINT, t BIGINT) TIME t; CREATE QUERY q AS SELECT x FROM S;", known)
    groups, streams = known.members(), known.streams
    plan = SavedPlan.of(distribute(groups, streams, then.shards or 2), options=ShardOptions(then))
    saved = SavedPlan.from_json(plan.to_json())
    assert saved.options == then
    saved.check_frame(streams, now.shards or saved.shards)
    saved.check_constraints(ShardOptions(now))
    pages = Shard(groups, streams, options=ShardOptions(then)).save().puts
    Shard.load(pages, groups, streams, options=ShardOptions(now))


@every_option
def test_what_a_checkpoint_refuses(name: str) -> None:
    refused = None
    try:
        restart(Options(), other(name))
    except BraidError as error:
        refused = error.code
    assert refused == OPTIONS[name].fixed
    restart(other(name), other(name))
