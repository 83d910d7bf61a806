"""Users choose how the selections of a stream are indexed; answers do not depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.operators.core.selection_settings import Form

S = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("name", pa.string()), ("t", pa.int64())])
ASC = {"form": "asc", "strategy": "macro", "tau": 100, "lambda": 500, "mu": 0.25, "sample": 2}


def engine(selection: Any = None, queries: int = 60) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, selection=selection)
    made.stream("S", S, time="t")
    made.stream("T", S, time="t")
    random = np.random.default_rng(1)
    for number in range(queries):
        low, high = random.integers(0, 900, 2)
        for stream in ("S", "T"):
            text = (
                f"SELECT * FROM FILTER{{a > {low} AND b BETWEEN {high} AND {high + 90}}} {stream}"
            )
            made.query(f"{stream}{number}", text)
    return made


def events(seed: int, count: int = 400) -> dict[str, dict[str, Any]]:
    random = np.random.default_rng(seed)
    columns = {name: random.integers(0, 1_000, count).tolist() for name in "ab"}
    columns |= {"name": ["x"] * count, "t": list(range(seed * count, seed * count + count))}
    return {"S": columns, "T": columns}


def forms(made: braid.Engine) -> dict[str, dict[str, Any]]:
    """What `explain` says of the index of each stream."""
    mops = made.explain().to_dict()["mops"]
    found = [(mop["inputs"][0]["channel"], mop["detail"]) for mop in mops]
    return {channel.removeprefix("stream:"): said for channel, said in found if "form" in said}


def test_settings_are_of_a_stream() -> None:
    made = engine({"S": ASC, "*": {"form": "sequential"}})
    for seed in range(3):
        made.process(events(seed))
    found = forms(made)
    assert found["S"]["form"] == "asc"
    assert found["S"]["strategy"] == "macro"
    assert found["T"]["form"] == "in turn"


def test_bitmaps_that_cannot_be_are_explained() -> None:
    made = engine({"*": ASC}, queries=1)
    made.query("like", "SELECT a FROM FILTER{name LIKE 'x%'} S")
    made.process(events(0))
    made.process(events(1))
    assert "ASC is not used: bitmaps do not know tests of texts" in str(made.explain())


@pytest.mark.parametrize("form", [form.value for form in Form])
def test_every_form_gives_the_same_while_queries_come_and_go(form: str) -> None:
    plain, chosen = engine(), engine({"*": {"form": form}})
    for seed in range(4):
        for made in (plain, chosen):
            made.process(events(seed))
            made.query(f"new{seed}", f"SELECT a FROM FILTER{{a = {seed} OR b < {seed}}} S")
            made.drop(f"S{seed}")
        assert plain.matches.sort_by("payload").equals(chosen.matches.sort_by("payload"))
        assert plain.matches.num_rows > 0


def test_an_add_or_a_drop_keeps_the_bitmaps() -> None:
    made = engine({"*": ASC})
    made.process(events(0))
    made.process(events(1))
    before = forms(made)["S"]["rows"]
    made.query("new", "SELECT a FROM FILTER{a > 990} S")
    made.drop("S1")
    made.process(events(2))
    after = forms(made)["S"]
    assert after["form"] == "asc"
    assert after["rows"] > before


def test_settings_are_saved() -> None:
    made = engine({"S": ASC})
    made.process(events(0))
    again = braid.Engine.restore(made.snapshot())
    assert again.options.selection == made.options.selection
    assert again.options.selection.of("S").recompute == 500


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "selection=7 is not a mapping"),
        ({"S": 7}, "selection of S: 7 is not a mapping"),
        ({"S": {"forms": "asc"}}, "selection of S has no setting 'forms'"),
        ({"S": {"form": "bitmap"}}, "form = 'bitmap' is not one of adaptive, access, asc"),
        ({"S": {"strategy": "best"}}, "strategy = 'best' is not one of fixed, macro, hybrid"),
        ({"S": {"measure": "time"}}, "measure = 'time' is not one of cost, filtering"),
        ({"S": {"tau": 0}}, "tau = 0 is not a whole number of at least 1"),
        ({"S": {"lambda": 2.5}}, "lambda = 2.5 is not a whole number"),
        ({"S": {"mu": -1}}, "mu = -1 is not a number of at least 0"),
        ({"S": {"sample": True}}, "sample = True is not a whole number"),
    ],
)
def test_wrong_settings_are_refused(given: Any, said: str) -> None:
    with pytest.raises(braid.ConfigError) as caught:
        braid.Engine(selection=given)
    assert caught.value.code == "E327"
    assert said in caught.value.message
