"""Queries that show an aggregate over a sliding window are warned of, others are not."""

from __future__ import annotations

import pytest

from braid.lang import Catalog, compile_query, load


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("SELECT host, count(*) FROM L [Range 5] GROUP BY host", True),
        ("SELECT host, 2 * count(*) + 1 AS n FROM L [Rows 5] GROUP BY host", True),
        ("Istream(SELECT max(t2) FROM (SELECT host, 1 AS t2 FROM L) [Range 5])", True),
        ("SELECT DISTINCT count(*) AS n FROM L [Range 5] GROUP BY host", True),
        ("SELECT n FROM (SELECT host, count(*) AS n FROM L [Range 5] GROUP BY host) AS C", True),
        ("SELECT host, count(*) FROM L GROUP BY host", False),
        ("SELECT host, count(*) FROM L [Now] GROUP BY host", False),
        ("SELECT host FROM L [Range 5] GROUP BY host HAVING count(*) > 1", False),
        ("Rstream(SELECT host, count(*) FROM L [Range 5] GROUP BY host)", False),
        ("Dstream(SELECT host, count(*) FROM L [Range 5] GROUP BY host)", False),
        ("SELECT host FROM L [Range 5] AS A", False),
    ],
)
def test_who_is_warned(text: str, warned: bool) -> None:
    catalog = Catalog()
    load("CREATE STREAM L (host STRING, t BIGINT) TIME t", catalog)
    found = compile_query(text, catalog, query_id="q")
    assert ("W210" in [notice.code for notice in found.notices]) == warned
