"""Who is in the plan, found by id: queries that came alone, and those that came by the hundred."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from braid.engine.query_registry import MANY, Admitted, QueryRegistry
from braid.plan.routes import Route


def admitted(registry: QueryRegistry, ids: list[str]) -> Admitted:
    made = Admitted(
        Route((), ()),
        pa.array(ids, pa.string()),
        registry.new_numbers(len(ids)),
        [],
        [],
        np.zeros(len(ids), np.int64),
        np.zeros(len(ids), np.bool_),
    )
    registry.add(made)
    return made


def test_queries_are_found_however_many_came_together() -> None:
    registry = QueryRegistry()
    admitted(registry, ["one"])
    many = [f"big/{k}" for k in range(MANY)]
    large = admitted(registry, many)
    admitted(registry, ["big/x", "bigger", "big0"])
    for name in ("one", "big/0", f"big/{MANY - 1}", "big/x", "bigger"):
        (number,) = registry.numbers_of(name)
        assert registry.id_of(number) == name
    assert not registry.has("big")
    assert not registry.has("big/")
    assert not registry.has("big/00")
    found = {registry.id_of(n) for n in registry.numbers_of("big")}
    assert found == {*many, "big/x"}
    asked = ["big/17", "one", "none", "big/x", f"big/{MANY - 1}", "big/17"]
    several = [registry.id_of(n) for n in registry.numbers_of_all(asked)]
    assert sorted(several) == sorted({*asked} - {"none"})
    assert {registry.id_of(n) for n in registry.numbers_of_all(["one", "big"])} == {"one", *found}
    assert registry.ids_of(large.numbers[[3, 5]]).to_pylist() == ["big/3", "big/5"]
    assert registry.ids_of(np.empty(0, np.int64)).to_pylist() == []


def test_one_that_is_gone_is_not_found_until_it_comes_again() -> None:
    registry = QueryRegistry()
    many = [f"ä/{k}" for k in range(2 * MANY)]
    admitted(registry, many)
    registry.forget(registry.numbers_of("ä/7"))
    assert not registry.has("ä/7")
    assert len(registry.numbers_of_all(["ä/7", "ä/70", "ä/8", "ä/8190"])) == 3
    assert registry.has("ä/70")
    assert len(registry.numbers_of("ä")) == len(many) - 1
    admitted(registry, ["ä/7"])
    assert len(registry.numbers_of("ä")) == len(many)
    registry.forget(registry.numbers_of("ä"))
    assert registry.numbers_of("ä") == []
    assert registry.count == 0
    again = admitted(registry, [f"b/{k}" for k in range(2 * MANY)])
    assert again.first == 0
    assert registry.numbers_of("b/1") == [again.first + 1]
