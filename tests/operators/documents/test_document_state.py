"""What is kept of documents: ways that are known, values once, texts only where they are shown."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

import braid
from braid.engine import executor
from tests.operators.documents.test_documents import documents, engine, logic_of, results

ONE = "SELECT document_1 FROM S/r->r[./m->m[./a->x]] FOLLOWED BY{x = y, 9} S/r->s[./m->n[./a->y]]"
#: Leaves below one node on the left, below any two on the right.
TWO = (
    "S/r->r[./m->m[./a->x1][./b->x2]] FOLLOWED BY{x1 = y1 AND x2 = y2, 9} "
    "S/r->s[./m->n[./a->y1]][./m->p[./b->y2]]"
)
LEFT = "S/r->r[./m->m[./a->x][./c->shown]] FOLLOWED BY{x = y, 9} S/r->s[./m->n[./a->y]]"


def document(number: int) -> str:
    leaves = [f"<m><a>{number}-{k}</a><b>{number}-b{k}</b><c>{k}</c></m>" for k in range(3)]
    return f"<r>{''.join(leaves)}</r>"


def counted(views: bool, queries: dict[str, str]) -> tuple[Counter[str], int]:
    """The results by query; another query comes, and one goes, on the way."""
    running = engine(queries, None if views else {"xml_views": False})
    found: Counter[str] = Counter()
    known = 0
    for step in range(4):
        if step == 2:
            running.query("late", ONE.replace("./b", "./c"))
        if step == 3:
            running.drop("two")
        given = [(document((20 * step + t) // 4), 20 * step + t) for t in range(20)]
        running.process(documents(*given))
        for (name, _), table in running.results.items():
            found[name] += table.num_rows
        known = max(known, logic_of(running).describe()["ways"])
    return found, known


def test_ways_that_are_known_change_no_result() -> None:
    queries = {"one": ONE, "two": TWO, "left": LEFT}
    with_ways, known = counted(True, queries)
    without, _ = counted(False, queries)
    assert with_ways == without
    assert set(with_ways) == {"one", "two", "left", "late"}
    assert known > 0


def test_facts_that_lead_too_far_are_followed_each_time() -> None:
    """Six leaves of one name in five joins are 7,776 ways, of which few agree."""
    leaves = "".join(f"[./m->m{k}/a->x{k}]" for k in range(5))
    predicate = " AND ".join(f"x{k} = y{k}" for k in range(5))
    right = leaves.replace("->x", "->y").replace("->m", "->n")
    query = f"SELECT document_1 FROM S/r->r{leaves} FOLLOWED BY{{{predicate}, 1}} S/r->s{right}"
    running = engine({"q": query})
    text = "<r>" + "".join(f"<m><a>{k}</a></m>" for k in range(6)) + "</r>"
    running.process(documents(*((text, t) for t in range(4)), ("<end/>", 9)))
    assert len(results(running, "q")) == 3 * 6**5
    assert logic_of(running).describe()["ways"] == 0


def held_bytes(query: str, count: int, distinct: int) -> int:
    with patch.multiple(executor, GROWTH=0, COMPACT_FROM=0):
        running = engine({"q": query})
        long = "x" * 1000
        for t in range(0, count, 50):
            given = [
                (f"<r><a>value {k % distinct:9}</a><b>{long}{k}</b></r>", k)
                for k in range(t, t + 50)
            ]
            running.process(documents(*given))
        running.process(documents(("<end/>", count)))
        strings = running._running().executor.context.values.strings
        assert logic_of(running).describe()["documents"] >= count
        return int(strings.size)


JOIN = "FROM S/r->r[./a->x] FOLLOWED BY{x = y, unbounded} S/q->s[./a->y]"


def test_texts_are_kept_only_where_results_show_them() -> None:
    """Each distinct value once, whatever the number of documents; a result needs all of them."""
    few, many = (held_bytes(f"SELECT x {JOIN}", 400, distinct) for distinct in (10, 400))
    assert few < 1_000
    assert many - few == pytest.approx(390 * len("value 123456789"), rel=0.1)
    assert held_bytes(f"SELECT result {JOIN}", 100, 10) > 100 * 1000


@pytest.mark.parametrize("shown", ["x, y, c", "r", "result", "document_1"])
def test_what_is_shown_is_there_after_a_restart(shown: str) -> None:
    """Also if edges have other numbers then: queries that came before are gone."""
    query = f"SELECT {shown} FROM S/r->r[./a->x][./c->c] FOLLOWED BY{{x = y, 9}} S/r->s[./a->y]"
    rows: list[list[dict[str, Any]]] = []
    for restarts in (False, True):
        running = engine({"first": "S//c->x FOLLOWED BY{x = y, 5} S//a->y", "q": query})
        running.drop("first")
        running.process(documents(("<r><a>1</a><b/><c>2</c><c>3</c></r>", 1), ("<e/>", 2)))
        if restarts:
            running = braid.Engine.restore(running.snapshot())
        running.process(documents(("<r><a>1</a></r>", 3), ("<e/>", 4)))
        rows.append(results(running, "q"))
    assert rows[0] == rows[1]
    assert len(rows[0]) == 2
