"""CREATE CONSTRAINT, DROP CONSTRAINT, and CREATE QUERY ... CONSTRAINTS."""

from __future__ import annotations

import pytest

from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode
from braid.errors import BraidError, ConfigError, QueryErrors
from braid.lang import Catalog, compile_query, load, prepare
from braid.lang.bind.constraints import declared_constraint
from tests.lang.support import catalog, error, pointed_at

JOIN = "Select A.Name From Stock [Range 1 min] As A, Stock [Range 1 min] As B Where A.Name = B.Name"
COUNTED = JOIN.replace("A.Name From", "A.Name, count(*) From") + " Group By A.Name"

KEY = ConstraintKind.KEY
MINUTE = 60_000_000


def declared(text: str) -> Constraint:
    known = catalog()
    (found,) = load(text, known).constraints
    assert known.constraints == {found.name: found}
    return found


def failures(text: str, known: Catalog | None = None) -> list[tuple[str, str]]:
    """The code of each error, and the part of the text that it points at."""
    known = known or catalog()
    before = dict(known.constraints)
    with pytest.raises(QueryErrors) as caught:
        load(text, known)
    assert known.constraints == before
    return [(e.code, pointed_at(e)) for e in caught.value.errors]


def hint(text: str) -> str:
    with pytest.raises(QueryErrors) as caught:
        load(text, catalog())
    return str(caught.value.errors[0].hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ON Stock (Name, Volume) KEY", (KEY, "Stock", ("Name", "Volume"))),
        ("ON IBMStock (IBMPrice) KEY", (KEY, "IBMStock", ("IBMPrice",))),
        (
            "ON Stock (Name) REFERENCES Wide (s) WITHIN 100 ROWS",
            (ConstraintKind.REFERENCES, "Stock", ("Name",), "Wide", ("s",), 100),
        ),
        (
            "ON Stock (Name) references Wide (s) within 10 minutes",
            (ConstraintKind.REFERENCES, "Stock", ("Name",), "Wide", ("s",), 10 * MINUTE, True),
        ),
        (
            "ON Stock (Volume) REFERENCES Wide (i)",
            (ConstraintKind.REFERENCES, "Stock", ("Volume",), "Wide", ("i",)),
        ),
        (
            "ON Stock (Name, Volume) CLUSTERED WITHIN 1,000 ROWS",
            (ConstraintKind.CLUSTERED, "Stock", ("Name", "Volume"), None, (), 1_000),
        ),
        ("ON Stock (Price) ASCENDING", (ConstraintKind.ASCENDING, "Stock", ("Price",))),
        (
            "ON Tick (n) DESCENDING WITHIN 5 TICKS",
            (ConstraintKind.DESCENDING, "Tick", ("n",), None, (), 5, True),
        ),
        (
            "ON Wide (day) ASCENDING WITHIN 1 ROW",
            (ConstraintKind.ASCENDING, "Wide", ("day",), None, (), 1),
        ),
    ],
)
def test_what_is_declared(text: str, expected: tuple[object, ...]) -> None:
    assert declared(f"CREATE CONSTRAINT c {text};") == Constraint("c", *expected)


def test_its_words_are_names_elsewhere() -> None:
    known = Catalog()
    load(
        """
        CREATE STREAM constraint (key INT, within INT, on INT, clustered INT, rows INT, t BIGINT)
          TIME t;
        CREATE CONSTRAINT key ON constraint (key, within, clustered, on, rows) KEY;
        CREATE CONSTRAINT within ON constraint (within) CLUSTERED WITHIN 3 ROWS;
        CREATE QUERY constraints CONSTRAINTS OFF AS
          SELECT key AS ascending, references.on FROM constraint [Rows 3] references
          WHERE within > clustered;
        """.replace("SELECT", "Select"),
        known,
    )
    assert known.constraints["key"].attributes == ("key", "within", "clustered", "on", "rows")
    assert known.constraints["within"].k == 3
    assert known.queries["constraints"].node.schema.names == ("ascending", "on")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ON Stok (Name) KEY", ("E105", "Stok")),
        ("ON Stock (Nme) KEY", ("E103", "Nme")),
        ("ON Stock (ts) ASCENDING", ("E103", "ts")),
        ("ON Stock (Name, Name) KEY", ("E108", "Name")),
        ("ON IBMStock (Price) KEY", ("E103", "Price")),
        ("ON Stock (Name) REFERENCES Wide (x)", ("E197", "x")),
        ("ON Stock (Name) REFERENCES Wide (s, x)", ("E197", "Wide")),
        ("ON Stock (Name) REFERENCES Tick (Name)", ("E197", "Tick")),
        ("ON Stock (Name) REFERENCES Stok (Name)", ("E105", "Stok")),
        ("ON Stock (Name) ASCENDING", ("E197", "Name")),
        ("ON Stock (Price, Volume) ASCENDING", ("E197", "Volume")),
        ("ON Wide (list) CLUSTERED", ("E197", "list")),
        ("ON Stock (Name) CLUSTERED WITHIN -1 ROWS", ("E198", "-1")),
        ("ON Stock (Name) CLUSTERED WITHIN -1 MIN", ("E198", "-1 MIN")),
        ("ON Stock (Name) CLUSTERED WITHIN 1.5 ROWS", ("E198", "1.5")),
        ("ON Tick (n) ASCENDING WITHIN 10 MINUTES", ("E198", "10 MINUTES")),
        ("ON Stock (Price) ASCENDING WITHIN 10 TICKS", ("E198", "10 TICKS")),
        ("ON Stock (Price) ASCENDING WITHIN 10 months", ("E113", "months")),
        ("ON Stock (Price) ASCENDING WITHIN 99999999999999 weeks", ("E112", "weeks")),
        ("ON Stock (Price) ASCENDING WITHIN 15000000 weeks 15000000 weeks", ("E112", "15000000")),
        ("ON Stock (Price) SORTED", ("E100", "SORTED")),
        ("ON Stock (Price) KEY WITHIN 5 ROWS", ("E100", "WITHIN")),
        ("ON Stock Price KEY", ("E100", "Price")),
    ],
)
def test_what_is_refused(text: str, expected: tuple[str, str]) -> None:
    ((code, place),) = failures(f"CREATE CONSTRAINT c {text};")
    assert (code, place[: len(expected[1])]) == expected


def test_alternatives_are_shown() -> None:
    assert "did you mean Stock?" in hint("CREATE CONSTRAINT c ON Stok (Name) KEY;")
    assert "did you mean Name?" in hint("CREATE CONSTRAINT c ON Stock (Nme) KEY;")
    assert "did you mean ASCENDING?" in hint("CREATE CONSTRAINT c ON Stock (Price) ASENDING;")
    assert "TICKS" in hint("CREATE CONSTRAINT c ON Tick (n) ASCENDING WITHIN 10 MINUTES;")


def test_names_are_free_once() -> None:
    known = catalog()
    twice = "CREATE CONSTRAINT c ON Stock (Name) KEY;"
    assert failures(twice * 2, known) == [("E195", "c")]
    load(twice, known)
    assert failures(twice, known) == [("E195", "c")]
    load(f"DROP CONSTRAINT c; {twice}", known)
    assert failures("DROP CONSTRAINT d;", known) == [("E196", "d")]
    load("DROP CONSTRAINT c;", known)
    assert not known.constraints


def test_all_errors_are_shown_and_nothing_is_kept() -> None:
    found = failures(
        """
        CREATE CONSTRAINT good ON Stock (Name) KEY;
        CREATE CONSTRAINT bad ON Stock (a, b) KEY;
        CREATE STREAM Broken (x NONSENSE);
        CREATE CONSTRAINT silent ON Broken (x) KEY;
        """
    )
    assert [place for _, place in found] == ["a", "b", "NONSENSE"]


def test_a_failing_file_leaves_what_was_there() -> None:
    known = catalog()
    load("CREATE CONSTRAINT c ON Stock (Name) KEY;", known)
    failures("DROP CONSTRAINT c; CREATE QUERY q AS SELECT nothing FROM Stock;", known)
    assert set(known.constraints) == {"c"}


# --- from Python ---


def test_declared_from_python() -> None:
    known = catalog()
    found = declared_constraint(
        known, "c", "references", "Stock", "Name",
        target="Wide", target_attributes=["s"], within="10 minutes",
    )  # fmt: skip
    kind = ConstraintKind.REFERENCES
    assert found == Constraint("c", kind, "Stock", ("Name",), "Wide", ("s",), 10 * MINUTE, True)
    for within in (7, "7", "7 rows"):
        found = declared_constraint(known, "c", "Clustered", "Stock", ["Name"], within=within)
        assert (found.k, found.timed) == (7, False)
    found = declared_constraint(known, "c", "ascending", "Tick", "n", within="7 ticks")
    assert (found.k, found.timed) == (7, True)
    assert declared_constraint(known, "c", KEY, "Stock", ["Name"]).kind is KEY


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        (("sorted", "Stock", "Name"), {}, "E197"),
        (("references", "Stock", "Name"), {}, "E197"),
        (("key", "Stock", "Name"), {"target": "Wide"}, "E197"),
        (("key", "Stock", ()), {}, "E197"),
        (("key", "Stock", "Name"), {"within": 3}, "E198"),
        (("clustered", "Stock", "Name"), {"within": -3}, "E198"),
        (("clustered", "Stock", "Name"), {"within": "3 apples"}, "E113"),
        (("clustered", "Stok", "Name"), {}, "E105"),
    ],
)
def test_refused_from_python(
    arguments: tuple[str, str, str], options: dict[str, object], code: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        declared_constraint(catalog(), "c", *arguments, **options)
    assert caught.value.code == code


# --- per query ---


def test_the_mode_of_a_query() -> None:
    known = catalog()
    for mode in ConstraintMode:
        query = compile_query(f"CREATE QUERY q CONSTRAINTS {mode.value} AS {JOIN}", known).query
        assert query.template.mode is mode
    assert compile_query(JOIN, known).query.template.mode is None


def test_the_mode_is_part_of_the_template() -> None:
    known = catalog()
    texts = {
        head: [
            f"CREATE QUERY q{n} {head} AS {JOIN} And A.Price > {n} PUBLISH P{n}" for n in range(4)
        ]
        for head in ("", "CONSTRAINTS EXACT", "CONSTRAINTS  monitored", "CONSTRAINTS OFF")
    }
    found = {}
    for head, group in texts.items():
        templates = {compile_query(text, known).query.template for text in group}
        assert len({t.base or t for t in templates}) == 1, "one template for each mode"
        found[head] = templates.pop()
    assert len({t.base or t for t in found.values()}) == 4
    assert [t.mode and t.mode.value for t in found.values()] == [None, "exact", "monitored", "off"]


def test_the_mode_of_a_prepared_query() -> None:
    each = "FOR EACH (n DECIMAL(5, 2))"
    for head in (f"CONSTRAINTS OFF {each}", f"{each} CONSTRAINTS OFF"):
        text = f"CREATE QUERY p {head} AS {JOIN} And A.Price > :n"
        found = prepare(text, {"n": [1.0, 2.0]}, catalog())
        assert found.template.mode is ConstraintMode.OFF


def test_an_unknown_mode() -> None:
    problem = error(f"CREATE QUERY q CONSTRAINTS EXAKT AS {JOIN}")
    assert (problem.code, pointed_at(problem)) == ("E199", "EXAKT")
    assert "did you mean EXACT?" in str(problem.hint)


@pytest.mark.parametrize(
    "query",
    [
        COUNTED,
        f"Select count(*) From (Istream({JOIN})) [Range 1 min]",
        f"Rstream({JOIN})",
        f"Dstream({JOIN})",
        f"SELECT * FROM SAMETIME{{count(*) AS n}} ({JOIN})",
        f"SELECT * FROM ({JOIN}) NEXT{{$1.Name = $2.Name AND DUR < 1h}} Stock",
    ],
)
def test_no_result_is_lost_where_others_count_on_it(query: str) -> None:
    found = compile_query(f"CREATE QUERY q CONSTRAINTS MONITORED AS {query}", catalog())
    assert found.query.template.mode is ConstraintMode.EXACT
    told = [n.code for n in found.notices]
    assert [code for code in told if code != "W210"] == ["W203"]  # two of them show an aggregate


def test_monitored_where_it_can_be() -> None:
    below = "(Select Distinct Name From Stock [Range 1 min])"
    others = (
        JOIN.replace("Select", "Select Distinct"),
        JOIN.replace("Stock [Range 1 min] As B", f"{below} As B"),
        f"SELECT Name FROM FILTER{{Name = 'IBM'}} ({JOIN})",
    )
    for query in (JOIN, *others):
        found = compile_query(f"CREATE QUERY q CONSTRAINTS MONITORED AS {query}", catalog())
        assert found.query.template.mode is ConstraintMode.MONITORED
        assert not found.notices


def test_constraints_survive_a_copy() -> None:
    known = catalog()
    load("CREATE CONSTRAINT c ON Stock (Name) KEY;", known)
    copy = known.copy()
    load("DROP CONSTRAINT c;", copy)
    assert set(known.constraints) == {"c"}
    assert not copy.constraints


def test_added_twice() -> None:
    known = catalog()
    found = declared_constraint(known, "c", "key", "Stock", "Name")
    known.add_constraint(found)
    with pytest.raises(BraidError, match="E195"):
        known.add_constraint(found)
