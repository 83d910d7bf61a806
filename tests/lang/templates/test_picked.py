"""Queries that pick attributes of a pattern follow from the one that shows all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.errors import BraidError
from braid.lang import compile_query
from braid.lang.templates.outlines import outline_of
from braid.lang.templates.picked import picked
from tests.lang.support import catalog
from tests.lang.templates.test_skeletons import Forgetful, bound, bound_fully, fully, parses
from tests.properties.expressions import Draw

__all__ = ["parses"]

BELOW = [
    "FROM FILTER{{Price > {0}}} Stock NEXT{{$2.Name = $1.Name AND DUR <= {1}min}} Stock",
    "FROM FILTER{{DUR <= {0}min}} (Stock NEXT{{$2.Name = $1.Name}} FILTER{{Price > {1}}} Stock)",
    "FROM Stock FOLD{{$2.Name = $.Name AND DUR <= {0}min, $2.Price > $.Price + {1}}} Stock",
    "FROM Stock NEXT{{$2.Name = $1.Name AND $2.Price > {0} + {1}}} Stock",
    "FROM FILTER{{Price > {0} AND Price < {1}}} Stock",
]
LISTS = [
    "Price",
    "Name_1, Price AS high",
    "Price_1 AS low , Price",
    "Name AS Price, Price AS Name",
    "Price, Price",
    "Price AS p, Name AS p",
    "nothing",
    "Price + 1",
    "DUR",
    "*, Price AS again",
    "Stock.Price",
    "price",
]


def test_what_is_taken_apart() -> None:
    def items(text: str) -> object:
        outline = outline_of(text)
        assert outline is not None
        found = picked(outline)
        return None if found is None else (found.everything.key, found.items)

    assert items("select a, b_1 AS c FROM FILTER{a > 1} S PUBLISH P") == (
        "SELECT * FROM FILTER{a > \0i} S \0p",
        (("a", "a"), ("b_1", "c")),
    )
    for text in ("FROM S", "SELECT a + 1 FROM S", "SELECT a AS b, b FROM S", "SELECT DUR FROM S"):
        assert items(text) is None
    assert items("CREATE QUERY q CONSTRAINTS EXACT AS SELECT a FROM S") is None


def test_lists_of_names_are_not_parsed(parses: list[str]) -> None:
    known = catalog()
    for first, second in ((1, 2), (3, 4)):
        compile_query(f"SELECT * {BELOW[0].format(first, second)}", known)
    parses.clear()
    found = {
        compile_query(f"SELECT {names} {BELOW[0].format(5, 6)}", known).query.template
        for names in LISTS[:4] * 2
    }
    assert len(found) == 4
    assert not parses


@pytest.mark.parametrize("names", LISTS)
def test_whatever_is_known_a_list_means_what_the_text_says(names: str) -> None:
    known = catalog()
    for below in BELOW:
        for number in range(3):
            text = f"SELECT {names} {below.format(number, 9)}"
            assert bound(text, known) == bound_fully(text, known), text
            published = f"{text} PUBLISH Out"
            assert bound(published, known) == bound_fully(published, known), published


@st.composite
def queries(draw: Draw) -> list[str]:
    below = draw(st.lists(st.sampled_from(BELOW), min_size=1, max_size=2))
    texts = []
    for _ in range(draw(st.integers(2, 6))):
        names = draw(st.sampled_from(["*", *LISTS]))
        low, high = draw(st.integers(0, 3)), draw(st.sampled_from(["4", "2.5", "99999999999"]))
        end = draw(st.sampled_from(["", " PUBLISH Out"]))
        texts.append(f"SELECT {names} {draw(st.sampled_from(below)).format(low, high)}{end}")
    return texts


@given(queries())
def test_a_list_gives_the_template_of_the_whole_text(texts: list[str]) -> None:
    known, whole = catalog(), catalog()
    for text in texts:
        whole.skeletons = Forgetful()
        try:
            found = compile_query(text, known, query_id="q")
        except BraidError as error:
            with pytest.raises(BraidError, match=error.code):
                fully(text, whole)
            continue
        expected = compile_query(text, whole, query_id="q")
        assert found.query.template.outputs == expected.query.template.outputs
        assert found.query.template.types == expected.query.template.types
        assert found.notices == expected.notices
