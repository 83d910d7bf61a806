"""Who is in the plan, found by id: queries that came alone, and those that came by the hundred."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from braid.engine.query_registry import MANY, Admitted, Census
from braid.plan.routes import Route


def admitted(census: Census, ids: list[str]) -> Admitted:
    made = Admitted(
        Route((), ()),
        pa.array(ids, pa.string()),
        census.new_numbers(len(ids)),
        [],
        [],
        np.zeros(len(ids), np.int64),
        np.zeros(len(ids), np.bool_),
    )
    census.add(made)
    return made


def test_queries_are_found_however_many_came_together() -> None:
    census = Census()
    admitted(census, ["one"])
    many = [f"big/{k}" for k in range(MANY)]
    large = admitted(census, many)
    admitted(census, ["big/x", "bigger", "big0"])
    for name in ("one", "big/0", f"big/{MANY - 1}", "big/x", "bigger"):
        (number,) = census.numbers_of(name)
        assert census.id_of(number) == name
    assert not census.has("big")
    assert not census.has("big/")
    assert not census.has("big/00")
    found = {census.id_of(n) for n in census.numbers_of("big")}
    assert found == {*many, "big/x"}
    asked = ["big/17", "one", "none", "big/x", f"big/{MANY - 1}", "big/17"]
    several = [census.id_of(n) for n in census.numbers_of_all(asked)]
    assert sorted(several) == sorted({*asked} - {"none"})
    assert {census.id_of(n) for n in census.numbers_of_all(["one", "big"])} == {"one", *found}
    assert census.ids_of(large.numbers[[3, 5]]).to_pylist() == ["big/3", "big/5"]
    assert census.ids_of(np.empty(0, np.int64)).to_pylist() == []


def test_one_that_is_gone_is_not_found_until_it_comes_again() -> None:
    census = Census()
    many = [f"ä/{k}" for k in range(2 * MANY)]
    admitted(census, many)
    census.forget(census.numbers_of("ä/7"))
    assert not census.has("ä/7")
    assert len(census.numbers_of_all(["ä/7", "ä/70", "ä/8", "ä/8190"])) == 3
    assert census.has("ä/70")
    assert len(census.numbers_of("ä")) == len(many) - 1
    admitted(census, ["ä/7"])
    assert len(census.numbers_of("ä")) == len(many)
    census.forget(census.numbers_of("ä"))
    assert census.numbers_of("ä") == []
    assert census.count == 0
    again = admitted(census, [f"b/{k}" for k in range(2 * MANY)])
    assert again.first == 0
    assert census.numbers_of("b/1") == [again.first + 1]
