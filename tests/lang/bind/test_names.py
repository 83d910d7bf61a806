"""Renaming in NEXT and FOLD, decorators, aliases without suffix, names of results."""

from __future__ import annotations

import pytest

from braid.algebra.expressions import Ref, Source, refs
from braid.algebra.nodes import Iterate, Project, Sequence
from tests.lang.support import compiled, error, names, node


def test_next_renames_all_of_the_first_input_if_any_name_collides() -> None:
    text = "FROM (SELECT Name, Price AS p FROM Stock) NEXT Stock"
    assert names(text) == ("Name_1", "p_1", "Name", "Price", "Volume")


def test_next_renames_nothing_without_a_collision() -> None:
    text = "FROM (SELECT Price AS p FROM Stock) NEXT Stock"
    assert names(text) == ("p", "Name", "Price", "Volume")


def test_suffixes_stack() -> None:
    text = "SELECT Price_1_1, Price_1, Price FROM Stock NEXT{} Stock NEXT Stock"
    assert names(text) == ("Price_1_1", "Price_1", "Price")


def test_next_and_union_associate_to_the_left() -> None:
    outer = node("FROM Stock NEXT Stock NEXT Stock")
    assert isinstance(outer, Sequence)
    assert isinstance(outer.first, Sequence)


def test_filter_binds_tighter_than_next() -> None:
    same = "FROM (FILTER{Price > 60.5}(Stock)) NEXT{$1.Name = $2.Name} Stock"
    assert node("FROM FILTER{Price > 60.5} Stock NEXT{$1.Name = $2.Name} Stock") == node(same)


def test_second_input_may_be_a_query_with_its_own_renaming() -> None:
    text = "FROM Stock NEXT (SELECT Name AS n, Price AS p FROM Stock NEXT{} IBMStock)"
    assert names(text) == ("Name", "Price", "Volume", "n", "p")


def test_fold_renames_the_common_names_only() -> None:
    text = "FROM (SELECT *, 0 AS cnt FROM Stock) FOLD{,, $.cnt + 1 AS cnt, DUR AS took} Stock"
    wanted = ("Name_1", "Price_1", "Volume_1", "cnt", "Name", "Price", "Volume", "took")
    assert names(text) == wanted


@pytest.mark.parametrize("fold", ["FOLD{,,}", "FOLD{,}", "FOLD{ , , }"])
def test_empty_parts_of_fold_are_true(fold: str) -> None:
    iterate = node(f"FROM Stock {fold} Stock")
    assert isinstance(iterate, Iterate)
    assert iterate == node("FROM Stock FOLD{TRUE, TRUE,} Stock")


def test_alias_without_suffix_where_only_one_input_had_the_name() -> None:
    text = "SELECT p FROM (SELECT Name, Price AS p FROM Stock) NEXT Stock"
    project = node(text)
    assert isinstance(project, Project)
    assert project.schema.names == ("p",)
    assert [r.name for _, e in project.items for r in refs(e)] == ["p_1"]


def test_alias_passes_filters_parentheses_and_further_nexts() -> None:
    inner = "(SELECT Name, Price AS p FROM Stock) NEXT Stock"
    assert names(f"SELECT p FROM FILTER{{p > 1}}(({inner}))") == ("p",)
    assert names(f"SELECT p, p_1, p_1_1 AS q FROM ({inner}) NEXT Stock") == ("p", "p_1", "q")
    assert names(f"SELECT p FROM (SELECT *, 1 AS one FROM {inner})") == ("p",)


def test_a_real_name_wins_over_an_alias() -> None:
    text = "SELECT Price FROM Stock NEXT Stock"
    project = node(text)
    assert isinstance(project, Project)
    assert project.items[0][1] == Ref(Source.INPUT, "Price", project.schema.type_of("Price"))


def test_an_alias_of_two_attributes_is_ambiguous() -> None:
    one = "(SELECT Name AS a, Price AS p FROM Stock) NEXT (SELECT Name AS a FROM Stock)"
    two = "(SELECT Name AS b, Price AS p FROM Stock) NEXT (SELECT Name AS b FROM Stock)"
    problem = error(f"SELECT p FROM ({one}) NEXT ({two})")
    assert problem.code == "E107"
    assert problem.hint == "it could be p_1_1 or p_1"


def test_aliases_end_at_a_select_list() -> None:
    inner = "(SELECT Name, Price AS p FROM Stock) NEXT Stock"
    assert error(f"SELECT p FROM (SELECT p_1, Name FROM {inner})").code == "E103"


def test_decorators_say_which_input() -> None:
    sequence = node("FROM Stock NEXT{$2.Price > $1.Price} Stock")
    assert isinstance(sequence, Sequence)
    assert [r.source for r in refs(sequence.predicate)] == [Source.SECOND, Source.FIRST]


def test_undecorated_name_of_one_input() -> None:
    sequence = node("FROM IBMStock NEXT{IBMPrice < Price} Stock")
    assert isinstance(sequence, Sequence)
    assert [r.source for r in refs(sequence.predicate)] == [Source.FIRST, Source.SECOND]


def test_undecorated_name_that_an_aggregate_updates_is_the_last_value() -> None:
    text = "FROM (SELECT *, 0 AS cnt, 1 AS k FROM Stock) FOLD{cnt < k, , cnt + 1 AS cnt} Stock"
    iterate = node(text)
    assert isinstance(iterate, Iterate)
    assert [r.source for r in refs(iterate.predicate)] == [Source.LAST, Source.FIRST]
    assert [r.source for r in refs(iterate.aggregates[0][1])] == [Source.LAST]


def test_dollar_one_in_a_unary_construct_is_its_input() -> None:
    assert node("FROM FILTER{$1.Price > 5} Stock") == node("FROM FILTER{Price > 5} Stock")


def test_default_names_of_results() -> None:
    text = "SELECT Name, upper(Name), DUR, Price * 2, abs(Price + 1) FROM Stock"
    assert names(text) == ("Name", "upper_Name", "dur", "col4", "abs")


def test_names_are_case_sensitive_and_may_be_quoted() -> None:
    assert error("SELECT price FROM Stock").hint == (
        "did you mean Price? attributes of Stock: Name, Price, Volume"
    )
    assert names("SELECT `Price` AS `the price`, Name AS `select` FROM `Stock`") == (
        "the price",
        "select",
    )
    assert names("SELECT Name AS end, Price AS time, Volume AS query FROM Stock") == (
        "end",
        "time",
        "query",
    )


def test_nested_publish_becomes_an_output_of_its_own() -> None:
    query = compiled(
        "SELECT Name_1 FROM (SELECT * FROM FILTER{Price > 1} Stock PUBLISH Dear) NEXT{} Dear "
        "PUBLISH Twice"
    ).query
    assert query.publishes == ("Dear", "Twice")
    assert query.reads == ("Stock", "Dear")
    assert [o.publish for o in query.outputs] == ["Dear", "Twice"]


def test_union_takes_the_attributes_in_any_order_and_widens() -> None:
    text = "FROM (SELECT i AS a, s AS b FROM Wide) UNION (SELECT s AS b, l AS a FROM Wide)"
    assert [(a.name, str(a.type)) for a in node(text).schema] == [("a", "int64"), ("b", "string")]
