"""The plans of RUMOR's examples: which operators become one m-op, by which rules.

Queries 1 and 2 smooth the stream with a sliding window first; here they read the smoothed
stream itself, which is all that their event patterns see of it.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import braid
from braid.engine.shard import Shard
from braid.operators.pattern.spec import StepSpec
from braid.operators.select.spec import SelectionSpec
from braid.plan.channel_specs import EncodeSpec, PublishSpec

SMOOTHED = pa.schema([("pid", pa.int64()), ("load", pa.float64()), ("t", pa.int64())])
RISING = (
    "SELECT * FROM FILTER{{load > 90}}(FILTER{{load < {start}}}(SMOOTHED)"
    " FOLD{{$2.pid = $1.pid AND DUR <= 60, $2.load > $.load, }} SMOOTHED)"
)


def engine(**options: object) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("SMOOTHED", SMOOTHED, time="t")
    return made


def shard_of(made: braid.Engine) -> Shard:
    made.process({"SMOOTHED": SMOOTHED.empty_table()})
    return made._running()


def specs(made: braid.Engine) -> list[type]:
    shard = shard_of(made)
    return [type(shard.plan.mops[s].spec) for s in shard.executor.order]


def test_example_21_selections_become_one_indexed_operator() -> None:
    made = engine()
    made.query("Q1", "SELECT * FROM FILTER{load > 5}(SMOOTHED)")
    made.query("Q2", "SELECT * FROM FILTER{pid = 7}(SMOOTHED)")
    assert specs(made) == [SelectionSpec]
    (mop,) = shard_of(made).plan.mops.values()
    assert mop.made_by == ("d_sigma", "s_sigma")


def test_example_22_an_automaton_is_a_plan() -> None:
    """sigma_s, then mu; the stopping condition is the forward edge of its state."""
    made = engine()
    made.query("Q", RISING.format(start=20))
    assert specs(made) == [SelectionSpec, StepSpec]


def test_example_23_without_channels_each_query_has_its_own_instances() -> None:
    made = engine(rules={"c_mu": False, "c_seq": False})
    for number in range(5):
        made.query(f"Q{number}", RISING.format(start=20 + number))
    assert specs(made) == [SelectionSpec, StepSpec]
    made.process({"SMOOTHED": {"pid": [1, 1], "load": [10.0, 11.0], "t": [1, 2]}})
    made.finish()
    # The first event rose to the second; the second started.
    assert shard_of(made).executor.instances == 10


def test_example_24_with_channels_an_instance_is_all_queries() -> None:
    made = engine()
    for number in range(5):
        made.query(f"Q{number}", RISING.format(start=20 + number))
    shard = shard_of(made)
    step = shard.plan.mops[shard.executor.order[-1]]
    assert "c_mu" in step.made_by
    made.process({"SMOOTHED": {"pid": [1, 1], "load": [10.0, 11.0], "t": [1, 2]}})
    made.finish()
    assert shard.executor.instances == 2
    made.process({"SMOOTHED": {"pid": [1], "load": [95.0], "t": [3]}})
    made.finish()
    assert sorted({query for query, _ in made.results}) == [f"Q{n}" for n in range(5)]


def test_only_queries_whose_condition_held_get_the_composite() -> None:
    made = engine()
    made.query("low", RISING.format(start=20))
    made.query("high", RISING.format(start=50))
    made.process({"SMOOTHED": {"pid": [1, 1], "load": [30.0, 95.0], "t": [1, 2]}})
    made.finish()
    assert [query for query, _ in made.results] == ["high"]


def test_prefixes_merge_and_equal_queries_are_one() -> None:
    """Figure 5.7: what two queries have in common is there once."""
    made = engine()
    text = (
        "SELECT * FROM FILTER{{load > {x}}}(FILTER{{pid = 1}}(SMOOTHED) NEXT{{DUR <= 5}} SMOOTHED)"
    )
    made.query("a", text.format(x=1))
    made.query("b", text.format(x=2))
    made.query("c", text.format(x=2))
    shard = shard_of(made)
    step = shard.executor.logics[shard.executor.order[-1]].describe()
    assert (step["states"], step["outputs"]) == (1, 2)


@pytest.mark.parametrize("inline", [True, False])
def test_resubscription_is_inlined(inline: bool) -> None:
    made = engine(rules={"inline": inline})
    made.query("up", "SELECT pid, load FROM SMOOTHED NEXT{$2.load > $1.load} SMOOTHED PUBLISH Up")
    made.query("twice", "SELECT * FROM Up NEXT{$2.pid = $1.pid} Up")
    assert (PublishSpec in specs(made)) is not inline
    made.process({"SMOOTHED": {"pid": [1] * 4, "load": [1.0, 2.0, 3.0, 4.0], "t": [1, 2, 3, 4]}})
    made.finish()
    assert made.results[("twice", None)].num_rows == 1


def test_sharable_streams_are_one_channel() -> None:
    """An event that belongs to both streams is one event, and starts one instance."""
    made = braid.Engine()
    made.execute(
        "CREATE STREAM A (x BIGINT, t BIGINT) TIME t;"
        "CREATE STREAM B (x BIGINT, t BIGINT) TIME t SHARABLE WITH A;"
        "CREATE STREAM T (x BIGINT, t BIGINT) TIME t;"
    )
    for name in ("A", "B"):
        made.query(name.lower(), f"SELECT * FROM {name} NEXT{{$2.x = $1.x AND DUR <= 9}} T")
    made.process({("A", "B"): {"x": [1, 2], "t": [1, 2]}, "A": {"x": [3], "t": [2]}})
    shard = made._running()
    assert EncodeSpec in [type(m.spec) for m in shard.plan.mops.values()]
    made.process({"T": {"x": [1, 3], "t": [3, 3]}})
    made.finish()
    found = {query: table.num_rows for (query, _), table in made.results.items()}
    assert found == {"a": 2, "b": 1}
    assert shard.executor.instances == 1  # x = 2, which waits for both


def sharable(own: str) -> braid.Engine:
    """Two sharable streams, the second with columns of its own, and a query of each."""
    made = braid.Engine()
    made.execute(
        "CREATE STREAM A (x BIGINT, v BIGINT, t BIGINT) TIME t;"
        f"CREATE STREAM B ({own}, t BIGINT) TIME t SHARABLE WITH A;"
        "CREATE STREAM T (x BIGINT, t BIGINT) TIME t;"
    )
    for name in ("A", "B"):
        made.query(name.lower(), f"SELECT v FROM {name} NEXT{{$2.x = $1.x AND DUR <= 9}} T")
    return made


def fed(made: braid.Engine) -> dict[str, list[dict[str, object]]]:
    both = {"x": [1, 2], "v": [3, 4], "extra": ["one", "two"], "t": [1, 2]}
    alone = {"x": [3], "v": [5], "t": [2]}
    made.process({("A", "B"): both, "A": alone, "T": {"x": [], "t": []}})
    made.process({"T": {"x": [1, 2, 3], "t": [3, 3, 3]}})
    made.finish()
    found = {query: table.drop_columns("start") for (query, _), table in made.results.items()}
    return {query: table.to_pylist() for query, table in found.items()}


@pytest.mark.parametrize("own", ["v BIGINT, x BIGINT", "x BIGINT, extra STRING, v BIGINT"])
def test_sharable_streams_with_other_columns_are_one_channel(own: str) -> None:
    made = sharable(own)
    found = fed(made)
    assert EncodeSpec in specs_of(made)
    assert specs_of(made).count(StepSpec) == 1
    assert [row["v"] for row in found["a"]] == [3, 4, 5]
    assert [row["v"] for row in found["b"]] == [3, 4]
    assert made.notices == []


def test_an_attribute_of_one_sharable_stream_is_read() -> None:
    made = sharable("x BIGINT, extra STRING, v BIGINT")
    made.query("own", "SELECT extra, v FROM B NEXT{$2.x = $1.x AND DUR <= 9} T")
    found = fed(made)
    assert EncodeSpec in specs_of(made)
    assert [row["extra"] for row in found["own"]] == ["one", "two"]
    assert [row["v"] for row in found["a"]] == [3, 4, 5]


def specs_of(made: braid.Engine) -> list[type]:
    return [type(mop.spec) for mop in made._running().plan.mops.values()]


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ("x BIGINT, v STRING", "'v' is STRING in B and BIGINT in A"),
        ("x BIGINT, v JSON", "'v' is STRING in B and BIGINT in A"),
    ],
)
def test_streams_that_contradict_each_other_share_nothing(own: str, reason: str) -> None:
    made = sharable(own)
    found = fed(made)
    assert EncodeSpec not in specs_of(made)
    assert len(found["a"]) == 3
    (notice,) = [notice for notice in made.notices if notice.code == "W214"]
    assert reason in notice.message
