"""Joins of sharable streams hold no more than they would with constraints off."""

from __future__ import annotations

from typing import Any

import pytest

import braid

COUNT = 400
FED: dict[Any, Any] = {
    ("A", "B"): {"k": list(range(COUNT)), "v": [0] * COUNT, "t": list(range(COUNT))},
    "T": {"k": [-1], "w": [0], "t": [COUNT]},
}


def join(stream: str, window: str = "Range 5000") -> str:
    return f"SELECT {stream}.v, T.w FROM {stream} [{window}], T [{window}] WHERE {stream}.k = T.k"


SETS = {
    "one each": [join("A"), join("B")],
    "several each": [join(s, f"Range {n}") for s in "AB" for n in (4000, 5000)],
    "rows": [join(s, f"Rows {n}") for s in "AB" for n in (4000, 5000)],
    "rows, one each": [join("A", "Rows 5000"), join("B", "Rows 5000")],
}


def engine(texts: list[str], **options: Any) -> braid.Engine:
    made = braid.Engine(idle_timeout=None, **options)
    made.execute(
        "CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;"
        "CREATE STREAM B (k BIGINT, v BIGINT, t BIGINT) TIME t SHARABLE WITH A;"
        "CREATE STREAM T (k BIGINT, w BIGINT, t BIGINT) TIME t;"
        "CREATE CONSTRAINT rising ON A (k) ASCENDING;"
    )
    for number, text in enumerate(texts):
        made.query(f"q{number}", text)
    return made


def joins(made: braid.Engine) -> int:
    return sum(mop["kind"] == "join" for mop in made.explain().to_dict()["mops"])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("mode", ["exact", "monitored"])
def test_no_set_holds_more_than_with_constraints_off(name: str, mode: str) -> None:
    held = []
    for options in ({"constraints": mode}, {"constraints": "off"}):
        made = engine(SETS[name], **options)
        made.process(FED)
        held.append((joins(made), made.stats["state_bytes"]))
    (own, state), (shared, least) = held
    assert own == shared == 1
    assert state <= 1.1 * least


def test_what_is_not_used_is_said() -> None:
    made = engine(SETS["one each"])
    plan = str(made.explain())
    assert "queries share it: it holds all rows, and uses no constraint" in plan
    assert [(n.code, n.query) for n in made.notices] == [("W207", "q0")]
    assert "streams that are sharable with them" in made.notices[0].message


def test_one_join_alone_uses_its_constraints() -> None:
    made = engine([join("A")])
    assert "uses no constraint" not in str(made.explain())
    assert not made.notices
