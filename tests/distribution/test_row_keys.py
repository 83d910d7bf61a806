"""Which relations can be keyed, which cannot and why."""

from __future__ import annotations

import pytest

from braid.distribution.distribution import distribute
from braid.lang import Catalog, compile_query, load

STREAMS = """
CREATE STREAM S (k STRING, v BIGINT, x BIGINT, t BIGINT) TIME t;
CREATE STREAM T (k STRING, w BIGINT, t BIGINT) TIME t;
CREATE STREAM U (k STRING, w BIGINT, t BIGINT) TIME t;
"""


def placed(*texts: str):
    catalog = Catalog()
    load(STREAMS, catalog)
    for number, text in enumerate(texts):
        catalog.add_query(compile_query(text, catalog, query_id=f"q{number}").query)
    streams = {name: catalog.streams[name] for name in ("S", "T", "U")}
    (component,) = distribute(list(catalog.queries.values()), streams, 2).components
    return component


@pytest.mark.parametrize(
    ("text", "channels"),
    [
        ("Select k, sum(v) From S [Range 5] Group By k", ("S@k",)),
        ("Select k, v From S [Range 5]", ("S@k",)),
        # Nothing leaves: no row can make up for another.
        ("Select S.v From S, T Where S.k = T.k", ("S@k", "T@k")),
        ("Select distinct k From S [Partition By k Rows 2]", ("S@k",)),
        ("Select k, x From S [Partition By k, x Rows 2] Where v > 3", ("S@k",)),
        ("Select S.k, w From S [Range 5], T [Now] Where S.k = T.k", ("S@k", "T@k")),
        ("Select S.v From S [Range 5], T [Now] Where S.v = T.w", ("S@v", "T@w")),
        (
            "Select S.k From S [Range 5], T, U [Range 3] Where S.k = T.k and T.k = U.k",
            ("S@k", "T@k", "U@k"),
        ),
        (
            """Rstream(Select C.k, A.total From S [Now] as C,
               (Select k, sum(v) as total From S [Range 5] Group By k) as A Where C.k = A.k)""",
            ("S@k",),
        ),
        ("SELECT k FROM (Select k, count(*) as n From S [Range 3] Group By k) NEXT{$2.k = $1.k} T", ("S@k", "T@k")),
        (
            """DETECT F FROM S [Rows 5], T [Range 5], U
               WHERE S.k = T.k AND T.k = U.k AND S.v = T.w PARTITION BY k""",
            ("S@k", "T@k", "U@k"),
        ),
        ("DETECT F FROM S [Rows 5], T WHERE S.k = T.k AND S.v = T.w PARTITION BY k, v", ("S@k", "T@k")),
        ("Select k, count(*) as n From (S NEXT{$2.k = $1.k} S) [Range 9] Group By k", ("S@k",)),
    ],
)  # fmt: skip
def test_keyed(text: str, channels: tuple[str, ...]) -> None:
    component = placed(text)
    assert component.mode == "keyed", component.reason
    assert component.channels == channels


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Select sum(v) From S [Range 5]", "an aggregate without GROUP BY needs all rows"),
        ("Select k From S [Rows 5]", "without PARTITION BY"),
        ("Select v + 1 as v From S [Range 5]", "Istream compares rows"),
        ("Dstream(Select v % 2 as v From S [Range 5])", "Dstream compares rows"),
        ("Select distinct v + 1 as v From S [Range 5]", "DISTINCT compares rows"),
        ("Select k, v From S [Partition By x Rows 2] Group By k, v", "GROUP BY does not have"),
        ("Select S.k From S [Range 5], T [Range 5] Where v < w", "does not relate all its inputs"),
        (
            "Select S.k From S [Now], T [Now], U [Now] Where S.k = T.k and S.v = U.w",
            "does not relate all its inputs",
        ),
        ("Rstream(Select k, v From S [Range 5])", "Rstream shows all rows"),
        (
            "DETECT F FROM S [Now], T [Now] WHERE S.k = T.k",
            "DETECT without PARTITION BY cuts batches",
        ),
        (
            """DETECT F FROM (Istream(Select count(*) as n From S [Range 5])) [Rows 5] AS C, T
               WHERE C.n = T.w PARTITION BY n""",
            "an aggregate without GROUP BY",
        ),
    ],
)
def test_what_cannot_be_keyed_is_whole_and_says_why(text: str, reason: str) -> None:
    component = placed(text)
    assert component.mode == "whole"
    assert reason in component.reason


def test_what_reads_a_keyed_relation_is_keyed_with_it() -> None:
    component = placed(
        "Select k, sum(v) as total From S [Range 5] Group By k PUBLISH Totals",
        "SELECT k FROM Totals NEXT{$2.k = $1.k AND $2.total > $1.total} Totals",
    )
    assert (component.mode, component.channels) == ("keyed", ("S@k",))
