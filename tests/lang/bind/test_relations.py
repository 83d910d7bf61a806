"""Relational queries: which expression of the algebra each becomes, and what names mean in them."""

from __future__ import annotations

import pytest

from braid.algebra.expressions import Call, Literal, Ref, Source
from braid.algebra.joins import parts_of
from braid.algebra.nodes import Project, Read, Select, Sequence
from braid.algebra.relations import (
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    windows,
)
from braid.algebra.text import show
from braid.algebra.types import BIGINT, BOOLEAN, DURATION
from braid.lang import Catalog, compile_query, load
from tests.lang.support import catalog, compiled, names, node, types


def stream(text: str, known: Catalog | None = None) -> ToStream:
    found = compiled(text, known).query.node
    assert isinstance(found, ToStream)
    return found


def relation(text: str) -> Relation:
    found = stream(text)
    assert found.kind is StreamKind.ISTREAM
    return found.relation


def window(text: str) -> Window:
    (found,) = windows(stream(f"Select * From {text}").relation)
    return found


# --- windows ---


@pytest.mark.parametrize(
    ("text", "kind", "size"),
    [
        ("Stock [Range 10 minutes]", WindowKind.RANGE, Literal(600_000_000, DURATION)),
        ("Stock [Range 1h 30min]", WindowKind.RANGE, Literal(5_400_000_000, DURATION)),
        ("Stock [Range 3,600 s]", WindowKind.RANGE, Literal(3_600_000_000, DURATION)),
        ("Stock [range 600]", WindowKind.RANGE, Literal(600, DURATION)),
        ("Stock [Range 0]", WindowKind.RANGE, Literal(0, DURATION)),
        ("Tick [Range 600]", WindowKind.RANGE, Literal(600, BIGINT)),
        ("Stock [Rows 50,000]", WindowKind.ROWS, Literal(50_000, BIGINT)),
        ("Stock [ROWS 1,000,000]", WindowKind.ROWS, Literal(1_000_000, BIGINT)),
        ("Stock [Now]", WindowKind.NOW, None),
        ("Stock [Range Unbounded]", WindowKind.UNBOUNDED, None),
        ("Stock As S", WindowKind.UNBOUNDED, None),
        ("(Stock [Now])", WindowKind.NOW, None),
        ("((Stock) [Now]) As S", WindowKind.NOW, None),
    ],
)
def test_windows(text: str, kind: WindowKind, size: Literal | None) -> None:
    found = window(text)
    assert (found.kind, found.size, found.keys) == (kind, size, ())
    assert isinstance(found.input, Read)


def test_partitions() -> None:
    found = window("Stock [Partition By P.Name, Volume, Name Rows 2] as P")
    assert (found.kind, found.size) == (WindowKind.ROWS, Literal(2, BIGINT))
    assert found.keys == ("Name", "Volume")
    assert window("Stock [Partition By Stock.Name Rows 2]").keys == ("Name",)


def test_rows_are_ordered_by_the_sequence_column() -> None:
    known = catalog()
    load("CREATE STREAM Numbered (n INT, x INT, t BIGINT) TIME t SEQUENCE n;", known)
    for text in ("Numbered [Rows 2]", "(FILTER{x > 1} Numbered) [Rows 2]"):
        (found,) = windows(stream(f"Select * From {text}", known).relation)
        assert found.order == "n"
    (found,) = windows(stream("Select * From (SELECT n FROM Numbered) [Rows 2]", known).relation)
    assert found.order is None
    assert window("Stock [Rows 2]").order is None


def test_a_window_is_of_all_that_stands_before_it() -> None:
    found = window("FILTER{Price > 5} Stock [Rows 3]")
    assert isinstance(found.input, Select)
    found = window("Stock NEXT{DUR < 1 min} Stock [Rows 3] As Pair")
    assert isinstance(found.input, Sequence)


# --- what is plain stays plain ---


def test_plain_queries_are_streams() -> None:
    assert isinstance(node("SELECT Name FROM Stock"), Project)
    assert isinstance(node("FROM Stock"), Read)
    assert isinstance(node("SELECT Name FROM Stock As S"), ToStream)


def test_the_words_of_relations_are_names_elsewhere() -> None:
    known = Catalog()
    load(
        """CREATE STREAM rows (`group` INT, having INT, range INT, where INT, view INT, t BIGINT) TIME t;
        CREATE QUERY where AS
          SELECT group AS now, where, range FROM FILTER{having > 5 AND where = 1 AND group IN (1, 2)} rows
          NEXT{$2.range = $1.range AND DUR < 5} (SELECT range FROM rows) PUBLISH partition;
        CREATE QUERY by AS Select where, count(*) From rows [Partition By rows.range Rows 2] Where where > 1
          Group By where Having where < 5;""",
        known,
    )
    assert known.queries["where"].node.schema.names == ("now", "where", "range")
    assert known.queries["by"].node.schema.names == ("where", "count")


def test_aliases_without_as() -> None:
    assert names(
        "Select a.Price As p, b.Name From Stock a, Stock [Rows 2] b Where a.Name = b.Name"
    ) == (
        "p",
        "Name",
    )


# --- names ---


def test_a_name_that_where_equates_is_not_ambiguous() -> None:
    text = "Select Name From Stock A, Stock B, Stock C Where A.Name = B.Name And B.Name = C.Name"
    mapped = relation(text)
    assert isinstance(mapped, MapRows)
    assert mapped.items == (("Name", Ref(Source.INPUT, "0.Name", mapped.items[0][1].type)),)


def test_star_of_several_inputs() -> None:
    assert names("Select * From Stock S, IBMStock [Rows 1] T Where S.Price = T.IBMPrice") == (
        "Name",
        "Price",
        "Volume",
        "IBMPrice",
    )
    assert names(
        "Select * From Stock A, (Select Name, Price As p From Stock Where Price > 1) B"
    ) == (
        "A_Name",
        "Price",
        "Volume",
        "B_Name",
        "p",
    )
    assert names("Select B.*, A.Price As first From Stock A, Stock B")[:3] == (
        "Name",
        "Price",
        "Volume",
    )


def test_default_names() -> None:
    assert names(
        "Select sum(S.Price), count(*), avg(Volume), max(Price) - min(Price) From Stock S"
    ) == (
        "sum_Price",
        "count",
        "avg_Volume",
        "col4",
    )


def test_structs_are_not_inputs() -> None:
    assert names("Select rec.u, W.rec.v From Wide W") == ("u", "v")


# --- operators ---


def test_where_group_and_having() -> None:
    mapped = relation(
        "Select Name, sum(Price) / count(*) As mean From Stock [Rows 10]"
        " Where Volume > 100 Group By Name Having count(*) > 2"
    )
    assert isinstance(mapped, MapRows)
    kept = mapped.input
    assert isinstance(kept, KeepRows)
    grouped = kept.input
    assert isinstance(grouped, GroupRows)
    assert [show(key) for key in grouped.keys] == ["Name"]
    assert [(a.name, a.function) for a in grouped.aggregates] == [
        ("agg_0", "sum"),
        ("agg_1", "count"),
    ]
    assert show(kept.predicate) == "agg_1 > 2"
    assert isinstance(grouped.input, KeepRows)
    assert isinstance(grouped.input.input, Window)


def test_computed_keys() -> None:
    mapped = relation("Select Volume DIV 10 As decade, count(*) From Stock Group By Volume DIV 10")
    assert isinstance(mapped, MapRows)
    assert show(mapped.items[0][1]) == "key_0"


def test_distinct() -> None:
    assert isinstance(relation("Select distinct Name From Stock [Now]"), DistinctRows)


def test_the_parts_of_a_join() -> None:
    mapped = relation(
        "Select A.Price From Stock [Rows 5] A, Stock [Rows 6] B, Stock [Now] C"
        " Where A.Price > 5 And B.Name = A.Name And C.Volume <=> B.Volume And C.Price > A.Price"
        " And A.Price + B.Price = C.Price And 1 < 2"
    )
    assert isinstance(mapped, MapRows)
    join = mapped.input
    assert isinstance(join, Join)
    parts = parts_of(join)
    assert [[show(e) for e in chosen] for chosen in parts.selections] == [["Price > 5.0"], [], []]
    assert [(c.function, c.inputs) for c in parts.equalities] == [
        ("eq", (0, 1)),
        ("eq_null_safe", (1, 2)),
    ]
    assert [(c.function, c.inputs) for c in parts.comparisons] == [("lt", (0, 2))]
    assert [show(e) for e in parts.rest] == ["(0.Price + 1.Price) = 2.Price", "1 < 2"]
    ((left, right),) = parts.between(1, 0)
    assert (left.input, right.input) == (1, 0)
    assert parts.connected() == {frozenset({0, 1, 2})}


def test_types_of_aggregates() -> None:
    assert types(
        "Select count(s), sum(i), sum(d), sum(f), avg(d), avg(i), min(s), max(day) From Wide"
    ) == [
        "int64",
        "int64",
        "decimal128(18, 2)",
        "double",
        "double",
        "double",
        "string",
        "date32[day]",
    ]


# --- streams and relations ---


@pytest.mark.parametrize(
    "text",
    [
        "Istream(Select Name From Stock [Rows 5])",
        "Select Istream(Name) From Stock [Rows 5]",
        "Select Name From Stock [Rows 5]",
        "ISTREAM (select Name from Stock [ROWS 5])",
    ],
)
def test_istream(text: str) -> None:
    assert node(text) == node("Istream(Select Name From Stock [Rows 5])")


def test_dstream_and_rstream() -> None:
    assert stream("Select Rstream(*) From Stock [Now]").kind is StreamKind.RSTREAM
    assert stream("Dstream(Select * From Stock [Now])").kind is StreamKind.DSTREAM
    assert stream("Rstream(FROM Stock)").kind is StreamKind.RSTREAM


def test_relations_in_patterns_are_istreams() -> None:
    inner = "(Select Name, avg(Price) As Price From Stock [Range 5 s] Group By Name)"
    found = node(f"FROM {inner} NEXT{{$2.Name = $1.Name AND DUR < 1 h}} Stock")
    assert isinstance(found, Sequence)
    assert isinstance(found.first, ToStream)
    assert found.first.kind is StreamKind.ISTREAM


def test_published_relations() -> None:
    """The stream is Istream of the relation; the query around it goes on with the relation."""
    query = compiled(
        "Select count(*) From (Select distinct Name From Stock [Range 1 h] PUBLISH Names) PUBLISH N"
    ).query
    assert query.publishes == ("Names", "N")
    first, second = query.outputs
    assert isinstance(first.node, ToStream)
    assert isinstance(second.node, ToStream)
    (counted,) = second.node.relation.inputs
    assert counted.inputs == (first.node.relation,)
    assert second.node.inputs == first.node.inputs
    known = catalog()
    known.add_query(query)
    read = compile_query("FROM Names NEXT{DUR < 5 s} N", known).query
    assert read.reads == ("Names", "N")


# --- warnings ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Select A.Price From Stock A, Stock [Rows 5] B", "the join keeps every row of A forever"),
        ("Select A.Price From Stock A, Stock [Range Unbounded] B Where A.Name = B.Name", "A, B"),
        ("Rstream(Select * From Stock)", "Rstream keeps every row of Stock"),
        (
            "Select x.Name From (Select Name From Stock Where Price > 5) x, Stock [Now] s",
            "of x for",
        ),
    ],
)
def test_what_grows_is_named(text: str, words: str) -> None:
    (notice,) = compiled(text).notices
    assert notice.code == "W202"
    assert words in notice.message


def test_a_range_that_is_empty_is_told() -> None:
    text = """Select A.Price From Stock [Now] A, Stock [Now] B Where A.Name = B.Name
              And A.Price Between 9 And 5 And A.Volume > 3 And B.Price < 7"""
    (notice,) = compiled(text).notices
    assert notice.code == "W204"


@pytest.mark.parametrize(
    "text",
    [
        "Select A.Price From Stock [Now] A, Stock [Rows 5] B",
        "Select A.Price From Stock [Now] A, (Select Name, count(*) From Stock Group By Name) B",
        "Select * From Stock Where Price > 5",
        "Select Name, count(*) From Stock Group By Name",
    ],
)
def test_what_does_not_grow(text: str) -> None:
    assert not compiled(text).notices


# --- expressions are checked when nodes are built ---


def test_nodes_check_themselves() -> None:
    read = node("FROM Stock")
    good = Window(read, WindowKind.ROWS, Literal(1, BIGINT))
    with pytest.raises(AssertionError):
        Window(read, WindowKind.ROWS)
    with pytest.raises(AssertionError):
        Window(read, WindowKind.NOW, Literal(1, BIGINT))
    with pytest.raises(AssertionError):
        KeepRows(good, Call("is_null", (Ref(Source.INPUT, "x", BIGINT),), BOOLEAN))
    with pytest.raises(AssertionError):
        Join((good,), Literal(True, BOOLEAN))
