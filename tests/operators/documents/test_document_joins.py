"""Several joins in a query over documents, and how much such queries may remember."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

import braid
from braid.engine import executor
from braid.operators.documents import value_order as document_order
from tests.engine.snapshot_parts import opened, sealed, with_option

STREAMS = """
CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;
CREATE STREAM J (doc JSON, t BIGINT) TIME t;
"""
THREE = (
    "S//book->x1[./author->x2] FOLLOWED BY{x2 = x5, 10} S//blog->x4[./author->x5][./title->x6] "
    "FOLLOWED BY{x8 = x6 AND x9 = x2, 5} S//reply->x7[./title->x8][./author->x9]"
)


def engine(queries: dict[str, str], **options: Any) -> braid.Engine:
    made = braid.Engine(**options)
    made.execute(STREAMS)
    for name, text in queries.items():
        made.query(name, text)
    return made


def feed(running: braid.Engine, *given: tuple[str, int]) -> list[dict[str, Any]]:
    """Process documents; the results of query q."""
    columns = {
        "id": [f"d{t}" for _, t in given],
        "doc": [d for d, _ in given],
        "t": [t for _, t in given],
    }
    running.process({"S": columns})
    return results(running, "q")


def results(running: braid.Engine, query: str) -> list[dict[str, Any]]:
    tables = [table for (name, _), table in running.results.items() if name == query]
    return [row for table in tables for row in table.to_pylist()]


BOOK = "<book><author>A</author><author>B</author></book>"
BLOG = "<blog><author>A</author><title>T</title></blog>"
REPLY = "<reply><title>T</title><author>A</author></reply>"


def test_three_blocks_are_joined_from_the_left() -> None:
    """The time of what the first join gives is that of its later document."""
    running = engine({"q": THREE})
    (row,) = feed(running, (BOOK, 1), (BLOG, 9), (REPLY, 9), (REPLY, 14), (REPLY, 15), ("<e/>", 16))
    assert (row["start"], row["end"]) == (1, 14)
    assert [row[f"document_{k}"] for k in (1, 2, 3)] == ["d1", "d9", "d14"]
    assert (row["x2"], row["x6"], row["x9"]) == ("A", "T", "A")
    assert row["result"] == f"<result>{BOOK}{BLOG}{REPLY}</result>"


def test_parentheses_around_what_is_joined_first() -> None:
    first, second = THREE.split(" FOLLOWED BY{x8")
    running = engine({"q": f"({first}) FOLLOWED BY{{x8{second}"})
    assert len(feed(running, (BOOK, 1), (BLOG, 9), (REPLY, 14), ("<e/>", 16))) == 1


NESTED = (
    "S//book->x1[./author->x2] FOLLOWED BY{x2 = x5 AND x9 = x2, 10} "
    "(S//blog->x4[./author->x5][./title->x6] JOIN{x8 = x6, 5} S//reply->x7[./title->x8][./author->x9])"
)


def test_a_join_to_the_right_of_a_block() -> None:
    """What it gives comes when its later document does; columns have the order of the text."""
    running = engine({"q": NESTED})
    (row,) = feed(running, (BOOK, 1), (REPLY, 8), (BLOG, 11), (REPLY, 12), ("<e/>", 16))
    assert (row["start"], row["end"]) == (1, 11)
    assert list(row)[2:5] == ["document_1", "document_2", "document_3"]
    assert [row[f"document_{k}"] for k in (1, 2, 3)] == ["d1", "d11", "d8"]
    assert (row["x2"], row["x6"], row["x9"]) == ("A", "T", "A")
    assert row["result"] == f"<result>{BOOK}{BLOG}{REPLY}</result>"
    text = str(running.explain("q"))
    assert "JOIN within 5: x6 = x8" in text
    assert "PRECEDED BY of block 1 within 10" in text
    again = braid.Engine.restore(engine({"q": NESTED}).snapshot())
    feed(again, (BOOK, 1), (BLOG, 2))
    again = braid.Engine.restore(again.snapshot())
    assert len(feed(again, (REPLY, 4), ("<e/>", 16))) == 1


def test_a_join_to_the_right_is_what_is_read_of_it_when_it_is_published() -> None:
    inner = NESTED[NESTED.index("(") + 1 : -1]
    pairs = engine({"pairs": f"{inner} PUBLISH Pairs"})
    pairs.query(
        "q",
        "S//book->x1[./author->x2] FOLLOWED BY{x2 = a AND x2 = b, 10} "
        "Pairs/result[./blog/author->a][./reply/author->b]",
    )
    given = ((BOOK, 1), (REPLY, 8), (BLOG, 11), (REPLY, 12), (BOOK, 12), (BLOG, 13), ("<e/>", 30))
    found = [(r["start"], r["end"], r["document_1"]) for r in feed(pairs, *given)]
    nested = feed(engine({"q": NESTED}), *given)
    assert sorted(found) == sorted((r["start"], r["end"], r["document_1"]) for r in nested)
    assert found


def test_what_nobody_sees_makes_no_further_results() -> None:
    """Both keys of the first document meet the third: that is one result."""
    query = "S//a->x JOIN{, 5} S//b->y JOIN{x/k = z, 5} S//c->z"
    rows = feed(
        engine({"q": query}),
        ("<a><k>1</k><k>1</k><k>2</k></a>", 1), ("<b/>", 2),
        ("<r><c>1</c><c>2</c><c>3</c></r>", 3), ("<e/>", 9),
    )  # fmt: skip
    assert sorted(row["z"] for row in rows) == ["1", "2"]


def test_json_and_xml_in_one_query() -> None:
    running = engine({"q": "J$.a->x JOIN{x = y, 5} S/b->y FOLLOWED BY{z = y, 5} J$.c->z"})
    running.process(
        {
            "J": {"doc": ['{"a": 1}', '{"c": 1.0}', "{}"], "t": [1, 4, 9]},
            "S": {"id": ["s"], "doc": ["<b>1</b>"], "t": [2]},
        }
    )
    running.finish()
    (row,) = results(running, "q")
    assert row["result"] == '{"result": [{"a": 1}, "<b>1</b>", {"c": 1}]}'
    assert (row["document_2"], row["z"]) == ("s", "1")


def test_each_member_sees_its_own_rows() -> None:
    """Prepared queries share every join; names, constants and windows are data."""
    running = engine({})
    running.query(
        "p",
        "CREATE QUERY p FOR EACH (n STRING, w BIGINT, v BIGINT) AS SELECT z, document_3 FROM "
        "S//:n->x FOLLOWED BY{x = y, :w} S//:n->y FOLLOWED BY{z = x, :v} S//:n->z",
        {"n": ["a", "b", "a", "a"], "w": [1, 1, 2, 1], "v": [1, 1, 1, 2]},
    )
    both = "<r><a>1</a><b>2</b></r>"
    feed(running, (both, 1), ("<a>1</a>", 2), ("<b>2</b>", 3), ("<a>1</a>", 4), ("<e/>", 9))
    found = {
        name: [r["document_3"] for r in t.to_pylist()] for (name, _), t in running.results.items()
    }
    assert found == {"p/3": ["d4"]}
    assert running.explain("p/0") is not None
    whole = str(running.explain())
    assert whole.count("document query: documents") == 2


def test_a_query_that_comes_and_goes_leaves_the_others_alone() -> None:
    running = engine({"q": THREE})
    found = feed(running, (BOOK, 1), (BLOG, 2))
    running.query("new", THREE)
    found += feed(running, (BOOK, 3), (BLOG, 4))
    running.drop("new")
    running.query("again", THREE.replace("10", "9"))
    found += feed(running, (REPLY, 5), ("<e/>", 6))
    # The book of 1 or 3 and a blog after it.
    assert sorted((r["document_1"], r["document_2"]) for r in found) == [
        ("d1", "d2"), ("d1", "d4"), ("d3", "d4"),
    ]  # fmt: skip
    assert not results(running, "again")


def test_several_joins_survive_a_restart_with_other_queries() -> None:
    running = engine({"q": THREE, "gone": THREE.replace("10", "8")})
    feed(running, (BOOK, 1), (BLOG, 2), ("<e/>", 3))
    running.drop("gone")
    again = braid.Engine.restore(running.snapshot())
    again.query("more", THREE.replace("5}", "4}"))
    assert [r["document_3"] for r in feed(again, (REPLY, 5), ("<e/>", 9))] == ["d5"]
    assert not results(again, "more")


def test_explain_shows_every_join() -> None:
    text = str(engine({"q": THREE}).explain("q"))
    assert "FOLLOWED BY within 10: x2 = x5" in text
    assert "FOLLOWED BY of block 3 within 5: x6 = x8 AND x2 = x9" in text
    assert "join graph: row(x2, x6); x7(x8, x9)" in text


def test_what_several_joins_publish_is_read() -> None:
    running = engine({"pairs": THREE + " PUBLISH Threes", "q": "Threes/result/reply/title->t"})
    assert [r["t"] for r in feed(running, (BOOK, 1), (BLOG, 2), (REPLY, 3), ("<e/>", 9))] == ["T"]


# ---- values in order ----

COMPARED = {
    "less": "S//a->x FOLLOWED BY{x < y, unbounded} S//b->y",
    "near": "S//a->x JOIN{x >= y, 9} S//b->y",
    "band": "S//a->x FOLLOWED BY{x > y AND x <= z, 30} S//r[./b->y][./c->z]",
    "inside": "S//r[./b->y][./c->z] FOLLOWED BY{y < x AND z > x, 40} S//a->x",
    "differs": "S//a->x FOLLOWED BY{x > y AND x != z, 30} S//r[./b->y][./c->z]",
    "beside": "S//r[./a->x][./k->u] FOLLOWED BY{u = v AND x < y, unbounded} S//r[./b->y][./k->v]",
    "beside band": "S//r[./k->u][./a->x] JOIN{x > y AND x <= z AND v = u, 30} S//r[./b->y][./c->z][./k->v]",
    "two equal": "S//r[./k->u][./b->x] FOLLOWED BY{u = v AND x = y AND z >= x, 30} S//r[./b->y][./c->z][./k->v]",
    "equal": "S//k->u FOLLOWED BY{u = v, 3} S//k->v",
    "rows beside": "S//r[./a->x][./k->u] JOIN{x != y, 2} S//b->y FOLLOWED BY{u = v AND z > x, 9} S//r[./c->z][./k->v]",
    "after": "S//a->x JOIN{x != y, 3} S//b->y FOLLOWED BY{z > x AND z <= y, 20} S//c->z",
}
VALUES = ["1", "2", "2.0", "10", "x", "2024-01-01", "2023-05-05T10:00:00Z", "é", "", "-3", "4"]


@pytest.mark.parametrize("sizes", [[40], [5, 7, 1, 1, 1, 10, 15]])
def test_values_in_order_give_what_going_through_all_gives(sizes: list[int]) -> None:
    draw = random.Random(4)
    names = ("a", "b", "c", "b")
    texts = ["".join(f"<{n}>{draw.choice(VALUES)}</{n}>" for n in names) for _ in range(40)]
    texts = [
        f"<k>{draw.choice('uv')}</k>{'<k>v</k>' * (k % 3 == 0)}{t}" for k, t in enumerate(texts)
    ]
    given = [(f"<r>{text}</r>", t) for t, text in enumerate(texts)]
    plain, found = Counter[Any](), Counter[Any]()
    for counted, rules in ((plain, {"xml_order": False}), (found, None)):
        running = engine(COMPARED, rules=rules)
        begin = 0
        with patch.multiple(document_order, FEWEST=3, FEW=1, PATIENCE=0):
            for size in (*sizes, 0):
                if size:
                    feed(running, *given[begin : begin + size])
                else:
                    running.finish()
                begin += size
                for name in COMPARED:
                    counted.update((name, *row.values()) for row in results(running, name))
    assert plain == found
    assert {name for name, *_ in plain} == set(COMPARED)


def test_values_are_sorted_anew_where_their_codes_have_changed_and_no_document_comes() -> None:
    with (
        patch.multiple(executor, GROWTH=0, COMPACT_FROM=0),
        patch.multiple(document_order, FEWEST=1),
    ):
        running = engine({"q": "S//a->x FOLLOWED BY{x < y, 100} S//b->y"})
        given = [(f"<a>{t}</a>", t) for t in (1, 2, 3, 90)]
        nothing: Any = None
        feed(running, *given, (nothing, 100))
        feed(running, (nothing, 150), (nothing, 151))
        rows = feed(running, ("<b>95</b>", 160), ("<e/>", 170))
    assert [row["x"] for row in rows] == ["90"]


def test_whether_values_differ_is_asked_of_their_texts() -> None:
    running = engine({"q": "S//a->x FOLLOWED BY{x != y, 5} S//b->y"})
    rows = feed(running, ("<a>2</a>", 1), ("<r><b>2.0</b><b>2</b></r>", 2), ("<e/>", 9))
    assert [row["y"] for row in rows] == ["2.0"]


# ---- what is remembered ----

ENDLESS = "S//a->x FOLLOWED BY{x = y, unbounded} S//b->y"
SHORT = "S//a->x FOLLOWED BY{x = y, 2} S//b->y"


def documents(first: int, last: int) -> list[tuple[str, int]]:
    return [(f"<r><a>{t}</a><b>{t - 1}</b></r>", t) for t in range(first, last)]


@pytest.mark.parametrize("sizes", [[20], [3, 4, 13], [1] * 20])
def test_a_query_that_remembers_too_much_is_suspended_and_others_go_on(sizes: list[int]) -> None:
    """At the same instant, however the documents come."""
    running = engine({"q": ENDLESS, "short": SHORT}, instance_budget=5)
    found, begin = {"q": 0, "short": 0}, 0
    for size in sizes:
        feed(running, *documents(begin, begin + size))
        begin += size
        for name in found:
            found[name] += len(results(running, name))
    feed(running, ("<e/>", 30))
    found = {name: count + len(results(running, name)) for name, count in found.items()}
    assert found == {"q": 5, "short": 19}
    assert set(running.suspended) == {"q"}
    assert running.suspended["q"].startswith("more than 5 instances at 5")


def test_the_rows_between_joins_count_too() -> None:
    text = "S//a->x JOIN{, 0} S//b->y FOLLOWED BY{x = z, unbounded} S//c->z"
    running = engine({"q": text, "short": SHORT}, instance_budget=5)
    feed(running, *documents(0, 8))
    feed(running, ("<c>1</c>", 9), ("<e/>", 12))
    assert set(running.suspended) == {"q"}
    assert not results(running, "q")


def test_a_larger_budget_lets_it_go_on_after_a_restart() -> None:
    running = engine({"q": ENDLESS}, instance_budget=5)
    feed(running, *documents(0, 12))
    saved = running.snapshot()
    same = braid.Engine.restore(saved)
    assert not feed(same, *documents(12, 16))
    assert set(same.suspended) == {"q"}
    header, pages = opened(saved)
    again = braid.Engine.restore(sealed(with_option(header, instance_budget=9), pages))
    found = feed(again, *documents(12, 16))
    # The last document before the restart had been held back.
    assert [row["document_1"] for row in found] == ["d11", "d12", "d13"]
    assert not again.suspended


def test_a_query_that_was_suspended_can_be_dropped() -> None:
    running = engine({"q": ENDLESS}, instance_budget=5)
    feed(running, *documents(0, 12))
    running.drop("q")
    running.query("q", SHORT)
    feed(running, *documents(12, 20))
    assert not running.suspended


def test_what_grows_is_named_when_a_join_has_no_window() -> None:
    running = engine({"q": "S//a->x JOIN{, 5} S//b->y JOIN{x = z, unbounded} J$.c->z"})
    (notice,) = running.notices
    assert notice.code == "W202"
    assert "every result of the join before it and every document of J forever" in notice.message
