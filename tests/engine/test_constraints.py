"""Declared constraints in an engine: kept, handed to the planning, saved and restored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import braid
from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode
from braid.distribution.distribution import distribute
from braid.engine.constraints import of_channels
from braid.engine.options import Options, ShardOptions
from braid.errors import CheckpointError, ConfigError
from braid.lang import Catalog, load
from braid.optimizer import driver
from braid.spark.shards.checkpoint import Digester, SavedPlan

STREAMS = """
CREATE STREAM A (x INT, v INT, t BIGINT) TIME t;
CREATE STREAM B (x INT, w INT, t BIGINT) TIME t;
CREATE CONSTRAINT known ON A (x) REFERENCES B (x) WITHIN 10 ROWS;
CREATE CONSTRAINT one ON B (x) KEY;
"""
JOIN = "Select A.v, B.w From A [Range 5], B [Range 5] Where A.x = B.x Publish {0}"
COUNT = "Select count(*) As n From A [Range 5], B [Range 5] Where A.x = B.x Publish {0}"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], ConstraintMode]]:
    """The names of the constraints and the mode that each planning of a query had."""
    seen: list[tuple[tuple[str, ...], ConstraintMode]] = []
    exit_of = driver._Walk.exit

    def noted(walk: driver._Walk, output: Any) -> Any:
        mode, declared = walk.constraints
        seen.append((tuple(c.name for c in declared), mode))
        return exit_of(walk, output)

    monkeypatch.setattr(driver._Walk, "exit", noted)
    return seen


def engine(**options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    made.execute(STREAMS)
    return made


def batch(name: str, xs: list[int], times: list[int]) -> dict[str, pa.Table]:
    value = "v" if name == "A" else "w"
    return {name: pa.table({"x": xs, value: xs, "t": times}, schema=_schema(value))}


def _schema(value: str) -> pa.Schema:
    return pa.schema([("x", pa.int32()), (value, pa.int32()), ("t", pa.int64())])


def test_planning_sees_constraints_and_modes(planned: list[Any]) -> None:
    made = engine()
    made.execute(f"CREATE QUERY q AS {JOIN.format('Q')};")
    made.execute(f"CREATE QUERY r CONSTRAINTS OFF AS {JOIN.format('R')};")
    made.execute(f"CREATE QUERY m CONSTRAINTS MONITORED AS {JOIN.format('M')};")
    made.explain()
    names = ("known", "one")
    modes = ConstraintMode.EXACT, ConstraintMode.OFF, ConstraintMode.MONITORED
    assert list(dict.fromkeys(planned)) == [(names, mode) for mode in modes]


def test_a_session_mode_is_never_monitored_under_an_aggregate(planned: list[Any]) -> None:
    made = engine(constraints="monitored")
    made.execute(f"{JOIN.format('Q')}; {COUNT.format('R')};")
    made.explain()
    found = list(dict.fromkeys(mode for _, mode in planned))
    assert found == [ConstraintMode.MONITORED, ConstraintMode.EXACT]


def test_declared_and_dropped_while_it_runs(planned: list[Any]) -> None:
    made = engine()
    made.query("q", JOIN.format("Q"))
    made.process(batch("A", [1, 2], [1, 2]) | batch("B", [9], [2]))
    assert made.stats["instances"] > 0, "the join holds events when what is known of them changes"
    made.constraint("order", "ascending", "A", "x", within=3)
    made.execute("DROP CONSTRAINT one;")
    made.process(batch("B", [1], [3]))
    assert made.finish()["Q"].to_pylist() == [{"start": 3, "end": 3, "v": 1, "w": 1}]
    assert planned[-1][0] == ("known", "order")
    assert made.constraints["order"].describe() == "A (x) ascending within 3 rows"


def test_a_snapshot_has_constraints_and_mode() -> None:
    made = engine(constraints="off")
    made.query("q", JOIN.format("Q"))
    made.query("r", f"CREATE QUERY r CONSTRAINTS MONITORED AS {JOIN.format('R')}")
    made.process(batch("A", [1, 2], [1, 2]))
    again = braid.Engine.restore(made.snapshot())
    assert again.constraints == made.constraints
    assert again.options.constraints is ConstraintMode.OFF
    assert again._catalog.queries["r"].template.mode is ConstraintMode.MONITORED
    again.process(batch("B", [1], [3]))
    assert again.finish()["Q"].num_rows == 1


@pytest.mark.parametrize("mode", ["exact", "monitored", "off", ConstraintMode.OFF])
def test_modes(mode: Any) -> None:
    assert engine(constraints=mode).options.constraints is ConstraintMode(mode)


def test_an_unknown_mode() -> None:
    with pytest.raises(ConfigError, match="modes: exact, monitored, off") as caught:
        braid.Engine(constraints="sloppy")
    assert caught.value.code == "E315"


def test_parts_of_streams_have_the_constraints_of_the_streams() -> None:
    key = Constraint("k", ConstraintKind.KEY, "A", ("x",))
    refers = Constraint("r", ConstraintKind.REFERENCES, "A", ("x",), "B", ("x",), 4)
    channels = {"A@x": "A", "A@v": "A", "B@x": "B", "C": "C"}
    found = of_channels((key, refers), channels)
    assert [(c.name, c.stream, c.target) for c in found] == [
        ("k", "A@x", None),
        ("k", "A@v", None),
        ("r", "A@x", "B@x"),
        ("r", "A@v", "B@x"),
    ]
    assert of_channels((refers,), {"A": "A"}) == (refers,), "B may be what a query publishes"


def test_a_checkpoint_keeps_constraints() -> None:
    known = Catalog()
    load(STREAMS + f"CREATE QUERY q AS {JOIN.format('Q')};", known)
    declared = tuple(known.constraints.values())
    options = ShardOptions(declared=declared)
    plan = SavedPlan.of(distribute(known.members(), known.streams, 2), options=options)
    saved = SavedPlan.from_json(plan.to_json())
    saved.check_constraints(ShardOptions(declared=declared[::-1]))
    with pytest.raises(CheckpointError) as caught:
        saved.check_constraints(ShardOptions(Options(constraints="off"), declared=declared[:1]))
    assert caught.value.code == "E316"
    assert "constraints were exact then, are off now" in caught.value.message
    assert "one: B (x) key then, not declared now" in caught.value.message
    with pytest.raises(CheckpointError, match="E421"):
        SavedPlan.from_json(plan.to_json().replace('"constraints"', '"other"'))


def test_a_query_with_another_mode_is_another_query() -> None:
    digests = []
    for mode in ("", "", "CONSTRAINTS OFF"):
        known = Catalog()
        load(STREAMS + f"CREATE QUERY q {mode} AS {JOIN.format('Q')};", known)
        (members,) = known.members()
        digests.append(int(Digester()(members)[0]))
    assert digests[0] == digests[1] != digests[2]
