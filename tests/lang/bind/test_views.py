"""Views: streams or relations by name, written out in what reads them."""

from __future__ import annotations

import pickle

import pytest

import braid
from braid.algebra.nodes import Project, Select
from braid.algebra.relations import GroupRows, MapRows, StreamKind, ToStream, walk_rows
from braid.errors import BraidError, QueryErrors
from braid.lang import Catalog, compile_query, load
from tests.lang.support import catalog, error, pointed_at

COUNTER = "CREATE VIEW Counter (name, n) AS Select Name, count(*) From Stock Group By Name;"
DEAR = "CREATE VIEW Dear AS SELECT Name, Price FROM FILTER{Price > 100} Stock;"


def with_views(*texts: str) -> Catalog:
    known = catalog()
    load("\n".join(texts), known)
    return known


def failures(text: str, known: Catalog) -> list[BraidError]:
    before = dict(known.views)
    with pytest.raises(QueryErrors) as caught:
        load(text, known)
    assert known.views == before
    return list(caught.value.errors)


def test_a_view_is_a_relation_or_a_stream() -> None:
    known = with_views(
        COUNTER,
        DEAR,
        "CREATE VIEW Changes AS Rstream(Select * From Counter);",
        "CREATE VIEW Cheap AS Select Name From Stock Where Price < 5;",
    )
    kinds = {name: view.is_relation for name, view in known.views.items()}
    assert kinds == {"Counter": True, "Dear": False, "Changes": False, "Cheap": True}
    assert known.views["Counter"].schema.names == ("name", "n")
    assert known.views["Changes"].views == ("Counter",)
    assert known.views["Changes"].reads == ("Stock",)


def test_queries_have_views_written_out() -> None:
    known = with_views(COUNTER, DEAR)
    query = compile_query("Select name From Counter Where n > 5", known).query
    written = compile_query(
        "Select name From (Select Name As name, count(*) As n From Stock Group By Name) Where n > 5",
        known,
    ).query
    assert query.outputs == written.outputs
    assert (query.reads, query.template.views) == (("Stock",), ("Counter",))
    plain = compile_query("SELECT Name FROM Dear", known).query.node
    assert isinstance(plain, Project)
    assert isinstance(plain.input, Project)
    assert isinstance(plain.input.input, Select)


def test_a_relation_without_window_and_select() -> None:
    known = with_views(COUNTER)
    for text in ("FROM Counter", "SELECT * FROM Counter", "Select C.* From Counter C"):
        node = compile_query(text, known).query.node
        assert isinstance(node, ToStream)
        assert node.kind is StreamKind.ISTREAM
        assert isinstance(node.relation, MapRows)
        assert any(isinstance(part, GroupRows) for part in walk_rows(node.relation))


def test_names_of_columns() -> None:
    known = with_views(
        "CREATE VIEW Twice (a, b) AS Select Name, Name From Stock [Now];",
        "CREATE VIEW Renamed (x, y, z) AS SELECT * FROM Stock;",
        "CREATE VIEW Rows3 (x, y, z) AS Select * From Stock [Rows 3];",
    )
    assert known.views["Twice"].schema.names == ("a", "b")
    assert known.views["Renamed"].schema.names == ("x", "y", "z")
    assert known.views["Rows3"].schema.names == ("x", "y", "z")


def test_order_in_a_file_does_not_matter() -> None:
    known = with_views(
        "CREATE QUERY q AS Select n From Second PUBLISH Q;",
        "CREATE VIEW Second AS Select n From Counter, Named [Now] Where Counter.name = Named.Name;",
        "CREATE QUERY p AS SELECT Name FROM Stock PUBLISH Named;",
        COUNTER,
    )
    assert list(known.views) == ["Counter", "Second"]
    assert known.queries["q"].reads == ("Stock", "Named")


@pytest.mark.parametrize(
    ("text", "code", "under", "words"),
    [
        ("CREATE VIEW V (a) AS SELECT Name, Price FROM Stock;", "E180", "a", "has 2"),
        ("CREATE VIEW V (a, b) AS SELECT * FROM Stock;", "E180", "a, b", "has 3"),
        ("CREATE VIEW V (a, a, b) AS SELECT * FROM Stock;", "E108", "a", "twice"),
        ("CREATE VIEW V AS SELECT Name FROM Stock PUBLISH X;", "E185", "X", "cannot publish"),
        ("CREATE VIEW Stock AS SELECT Name FROM Tick;", "E130", "Stock", "it is declared"),
        ("CREATE VIEW IBMStock AS FROM Tick;", "E130", "IBMStock", "publishes it"),
        ("CREATE STREAM Counter (a INT);", "E130", "Counter", "it is a view"),
        ("CREATE QUERY q AS FROM Stock PUBLISH Counter;", "E132", "Counter", "it is a view"),
        ("CREATE VIEW V AS SELECT Name FROM V;", "E133", "V", "V -> V"),
        ("CREATE VIEW V AS Select * From Counter [Rows 5];", "E176", "Counter", "is a relation"),
        ("CREATE VIEW V AS SELECT Name FROM Countr;", "E105", "Countr", "did you mean Counter?"),
        ("CREATE VIEW V AS FROM FILTER{Name = :w} Stock;", "E160", ":w", "has no parameters"),
        ("DROP VIEW Conter;", "E181", "Conter", "did you mean Counter?"),
        ("CREATE VIEW V AS SELECT FROM Stock;", "E100", "FROM", "expected"),
    ],
)
def test_what_is_wrong_with_views(text: str, code: str, under: str, words: str) -> None:
    (problem,) = failures(text, with_views(COUNTER))
    assert problem.code == code, problem.render()
    assert pointed_at(problem) == under
    assert words in f"{problem.message} {problem.hint}"


def test_cyclic_views() -> None:
    text = """CREATE VIEW A AS Select x From B;
CREATE QUERY q AS SELECT x FROM A PUBLISH Q;
CREATE VIEW B AS Select x From Q Where x > 5;
CREATE QUERY r AS SELECT * FROM B;"""
    (problem,) = failures(text, catalog())
    assert problem.code == "E133"
    assert "A -> q -> B -> A" in problem.message


def test_a_broken_view_does_not_make_its_readers_wrong() -> None:
    text = "CREATE VIEW A AS SELECT Prise FROM Stock; CREATE VIEW B AS SELECT x FROM A; FROM B;"
    assert [e.code for e in failures(text, catalog())] == ["E103"]


def test_drop() -> None:
    known = with_views(COUNTER, "CREATE VIEW Over AS Select name From Counter Where n > 5;")
    load("CREATE QUERY q AS FROM Over;", known)
    for text in ("DROP VIEW Counter;", "DROP VIEW Over;"):
        (problem,) = failures(text, known)
        assert problem.code == "E182"
    load("DROP QUERY q; DROP VIEW Over; DROP VIEW Counter;", known)
    assert not known.views
    assert error("FROM Counter", known).code == "E105"
    load("CREATE VIEW ibm AS SELECT IBMPrice FROM IBMStock;", known)
    (problem,) = failures("DROP QUERY ibm;", known)
    assert problem.code == "E135"
    assert "view ibm" in problem.message


def test_a_changed_view_changes_what_a_text_means() -> None:
    known = with_views(COUNTER)
    first = compile_query("Select name From Counter Where n > 5", known).query
    load("DROP VIEW Counter;", known)
    load(COUNTER.replace("count(*)", "max(Volume)"), known)
    second = compile_query("Select name From Counter Where n > 6", known).query
    assert first.template is not second.template
    assert first.outputs != second.outputs


def test_constants_of_a_view_are_not_lifted() -> None:
    known = with_views("CREATE VIEW V AS Select Name, Price From Stock [Rows 7] Where Price > 5;")
    query = compile_query("Select Name From V Where Price < 9", known).query
    assert query.values == (9.0,)
    assert pickle.loads(pickle.dumps(query)) == query


def test_snapshots_keep_views() -> None:
    engine = braid.Engine()
    engine.execute(
        "CREATE STREAM Stock (Name STRING, Price DOUBLE, t BIGINT) TIME t;"
        "CREATE VIEW Dearest AS SELECT * FROM FILTER{Price > 200} Dear;"
        "CREATE QUERY q AS SELECT Name FROM Dearest PUBLISH Q;"
        "CREATE VIEW Again AS SELECT Name FROM Q;" + DEAR
    )
    rows = {"Name": ["a", "b"], "Price": [150.0, 250.0], "t": [1, 2]}
    restored = braid.Engine.restore(engine.snapshot())
    restored.query("r", "FROM Again")
    restored.process({"Stock": rows})
    restored.finish()
    assert restored.results["q", "Q"].column("Name").to_pylist() == ["b"]
    assert restored.results["r", None].column("Name").to_pylist() == ["b"]
