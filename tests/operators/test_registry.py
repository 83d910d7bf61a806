"""The registry: families say who they are, and one that is removed is missed by its own queries only."""

from __future__ import annotations

import doctest
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from braid.errors import BraidError
from braid.operators.core.family import Family
from braid.operators.registry import NAMES, REGISTRY, Registry
from braid.optimizer.rules import NAMES as RULE_NAMES
from tests.operators.copies import ROOT, Copy, copied

STREAMS = """
CREATE STREAM A (k BIGINT, x BIGINT, y BIGINT, t BIGINT) TIME t;
CREATE STREAM B (k BIGINT, x BIGINT, y BIGINT, t BIGINT) TIME t;
CREATE STREAM G (k BIGINT, x BIGINT, y BIGINT, t BIGINT) TIME t;
CREATE STREAM H (k BIGINT, x BIGINT, y BIGINT, t BIGINT) TIME t;
CREATE STREAM D (doc XML, t BIGINT) TIME t;
"""
RANGES = (
    "SELECT A.x AS ax FROM A [Range 5], B [Range 5] "
    "WHERE A.k = B.k AND A.x > {} AND A.y < 9 AND B.x > 0"
)
QUERIES = {
    "select": "SELECT k FROM FILTER{x > 4}(A)",
    "union": "SELECT * FROM A UNION B",
    "pattern": "SELECT * FROM A NEXT{$1.k = $2.k AND DUR <= 5} B",
    "fold": "SELECT * FROM A FOLD{$2.k = $.k, $2.x > $.x AND DUR <= 9, $.y + 1 AS y} A",
    "group": "SELECT k, sum(x) AS total FROM A [Range 5] GROUP BY k",
    "distinct": "Rstream(SELECT DISTINCT k FROM A [Rows 3])",
    "join": "SELECT A.x AS ax, B.x AS bx FROM A [Range 5], B [Range 5] WHERE A.k = B.k",
    "some": RANGES.format(1),
    "others": RANGES.format(2),
    "alone": "Istream(SELECT G.x, H.y FROM G [Range 5], H [Range 5] WHERE G.k = H.k)",
    "documents": "D//a->v[./b->w]",
    "detect": "DETECT F FROM A [Range 9], B [Range 9] WHERE A.k = B.k",
}
DECLARED = "CREATE CONSTRAINT one ON G (k) REFERENCES H (k) WITHIN 3 ROWS;"
#: The families that nothing else is built on, and a kind of m-op that they have.
REMOVABLE = {
    "detect": "DetectionSpec",
    "documents": "DocumentsSpec",
    "selection_join": "SelectionJoinSpec",
    "constraint_join": "ConstraintJoinSpec",
}
#: What needs a family; other queries are planned otherwise without it.
NEEDED = {"detect": ["detect"], "documents": ["documents"], "constraint_join": ["declared"]}

SCRIPT = f"""
import importlib, json, pkgutil, warnings
warnings.simplefilter("ignore")
import braid
from braid.engine.explain.statistics import statistics
from braid.errors import BraidError

def modules(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name.rpartition(".")[2] not in ("spark", "demo", "__main__"):
            module = importlib.import_module(found.name)
            if found.ispkg:
                modules(module)

modules(braid)
QUERIES = {QUERIES!r}
ticks = list(range(12))
columns = {{"k": [t % 3 for t in ticks], "x": [t * 5 % 7 for t in ticks],
           "y": [t % 4 for t in ticks], "t": ticks}}
events = {{stream: columns for stream in "ABGH"}}
events["D"] = {{"doc": [f"<a><b>{{t}}</b></a>" for t in ticks], "t": ticks}}

refused = {{}}
# Joins with windows by time are joins with constraints at once, and not when they have grown.
engine = braid.Engine(idle_timeout=None, spill_above=0)
engine.execute({STREAMS!r})
for name, text in QUERIES.items():
    try:
        engine.query(name, text)
    except BraidError as error:
        refused[name] = str(error)
try:
    braid.Engine().execute({STREAMS!r} + {DECLARED!r})
except BraidError as error:
    refused["declared"] = str(error)
engine.process(events)
engine.finish()
shard = engine._running()
print(json.dumps({{
    "refused": refused,
    "results": {{query: sorted(map(repr, table.to_pylist()))
                for (query, _), table in engine.results.items()}},
    "specs": sorted({{type(mop.spec).__name__ for mop in shard.plan.mops.values()}}),
    "explained": [line for name in engine.results for line in engine.explain(name[0]).splitlines()],
    "drawn": len(engine.explain().svg()),
    "counted": len(statistics(shard)["mops"]),
    "rules": sorted(braid.optimizer.rules.NAMES),
}}))
"""


def outcome(tree: Copy) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tree.run(SCRIPT).splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    """What all families together do."""
    found = outcome(Copy(ROOT / "src"))
    assert found["refused"] == {}
    assert found["results"].keys() == QUERIES.keys()
    assert set(REMOVABLE.values()) <= set(found["specs"])
    return found


@pytest.mark.parametrize("family", REMOVABLE)
def test_a_family_can_be_removed(family: str, tmp_path: Path, whole: dict[str, Any]) -> None:
    """Its package is deleted: everything else imports, and other queries run and are explained."""
    tree = copied(tmp_path)
    tree.remove(family)
    found = outcome(tree)
    needed = NEEDED.get(family, [])
    assert list(found["refused"]) == needed
    for message in found["refused"].values():
        assert "E330" in message
        assert "no operator family is registered for" in message
    answers = {query: rows for query, rows in whole["results"].items() if query not in needed}
    assert found["results"] == answers
    assert REMOVABLE[family] not in found["specs"]
    assert found["explained"]
    assert found["drawn"] > 1_000
    assert found["counted"] > 5
    removed = next(f for f in REGISTRY.families if f.name == family)
    gone = {rule.name for rule in removed.rules} | set(removed.switches)
    assert set(found["rules"]) == set(RULE_NAMES) - gone


@pytest.mark.parametrize("family", REGISTRY.families, ids=NAMES)
def test_a_family_is_complete(family: Family) -> None:
    package = ROOT / "src" / "braid" / "operators" / family.name
    assert (package / "family.py").exists()
    assert (package / "rules.py").exists() == bool(family.rules)
    assert family.mops
    for kind in family.mops:
        assert kind.spec.__doc__, "the docstring of a spec says what its m-ops do"
    for function in (*family.plans.values(), *family.forms.values()):
        own = function.__module__.startswith(f"braid.operators.{family.name}.")
        assert own, f"{function.__name__} is of another family"


def test_nothing_is_claimed_twice() -> None:
    specs = [kind.spec for family in REGISTRY.families for kind in family.mops]
    planned = [type_ for family in REGISTRY.families for type_ in family.plans]
    assert len(set(specs)) == len(specs)
    assert len(set(planned)) == len(planned)
    assert len(set(RULE_NAMES)) == len(RULE_NAMES)
    assert sum(family.constraints is not None for family in REGISTRY.families) == 1


def test_later_rules_of_a_kind_share_more() -> None:
    """The rules of an operator are tried in this order, which decides what they make."""
    places = {name: place for place, name in enumerate(RULE_NAMES)}
    for first, second in (
        ("d_sigma", "s_sigma"),
        ("s_seq", "t_seq"),
        ("s_mu", "t_mu"),
        ("t_seq", "c_seq"),
        ("t_mu", "c_mu"),
    ):
        assert places[first] < places[second]


@pytest.mark.parametrize("family", NAMES)
def test_examples_of_rules_run(family: str) -> None:
    module = import_module(f"braid.operators.{family}.rules")
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


def test_an_unknown_spec_has_a_code() -> None:
    empty, spec = Registry([]), REGISTRY.families[0].mops[0].spec
    with pytest.raises(BraidError, match="no operator family is registered for SelectionSpec"):
        empty.kind_of(spec.__new__(spec))
