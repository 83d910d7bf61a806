"""DETECT as text: what it becomes, what is refused, which words stay names."""

from __future__ import annotations

import pytest

from braid.algebra.detection import Part, Settings
from braid.algebra.detection_memory import Demand, planned
from braid.algebra.join_graphs import graph_of
from braid.algebra.nodes import Node
from braid.algebra.relations import Detection, StreamKind, ToStream
from braid.algebra.types import BIGINT
from braid.errors import QueryError
from braid.lang import Catalog, compile_query, load, prepare

STREAMS = """
CREATE STREAM A (x BIGINT, v DOUBLE, batch INT, t BIGINT) TIME t;
CREATE STREAM B (x BIGINT, y STRING, t BIGINT) TIME t;
CREATE STREAM C (y STRING, z INT, t BIGINT) TIME t;
CREATE STREAM S (x BIGINT, ts TIMESTAMP) TIME ts;
CREATE STREAM T (x BIGINT, ts TIMESTAMP) TIME ts;
CREATE VIEW Dear AS SELECT x, v FROM FILTER{v > 100} A;
CREATE VIEW Counts AS SELECT x, count(*) AS n FROM A [Rows 5] GROUP BY x;
"""
PATH = "DETECT F FROM A [Rows 9], B [Range 5], C WHERE A.x = B.x AND B.y = C.y"


def catalog() -> Catalog:
    known = Catalog()
    load(STREAMS, known)
    return known


def settings(text: str) -> Settings:
    return detection(compile_query(text, catalog()).query.node).settings


def detection(node: Node) -> Detection:
    assert isinstance(node, ToStream)
    assert node.kind is StreamKind.DETECT
    assert isinstance(node.relation, Detection)
    return node.relation


def test_what_is_said_and_what_is_not() -> None:
    registered = compile_query(PATH, catalog())
    (output,) = registered.query.outputs
    assert output.publish == "F"
    assert output.node.schema.names == ("input", "bound", "verified", "packing")
    assert detection(output.node).settings == Settings(("A", "B", "C"), 1, None, (256, 256))
    assert [notice.code for notice in registered.notices] == ["W202"]  # C has no window


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("PACKING 0.25", {"packing": 0.25}),
        ("VERIFY ALWAYS", {"packing": -1.0}),
        ("verify never", {"packing": None}),
        ("BATCH 1,000", {"batch": 1000}),
        ("BATCH 10 WITHIN 7", {"batch": 10, "within": 7}),
        ("BUCKETS 4, 2", {"buckets": (4, 2)}),
        ("BUCKETS 32", {"buckets": (32, 32)}),
        ("COUNTS", {"counts": True}),
        ("BITMAPS", {"counts": False}),
        # A matrix of bits for the window of B and one for its batch, with room to grow, and little
        # else: 2.5 * m * m / 8 bytes.
        ("MEMORY 32 KB BITMAPS", {"buckets": (309, 309), "counts": False, "memory": 32 << 10}),
        ("MEMORY 2208 bytes", {"buckets": (1, 1), "memory": 2208}),
        (
            "BITMAPS BATCH 5 VERIFY ALWAYS BUCKETS 8",
            {"counts": False, "batch": 5, "packing": -1.0, "buckets": (8, 8)},
        ),
    ],
)
def test_settings(said: str, meant: dict[str, object]) -> None:
    plain = {"buckets": (256, 256), **meant}
    assert settings(f"{PATH} {said}") == Settings(("A", "B", "C"), **plain)


def test_memory_is_used_up_but_not_more() -> None:
    graph_of_path = detection(compile_query(PATH, catalog()).query.node)
    graph = graph_of(graph_of_path.join)
    for counts in (False, True):
        demand = Demand((9, None, None), 1, counts, verifies=True)
        for limit in (4096, 9999, 100_000):
            form = "COUNTS" if counts else "BITMAPS"
            found = settings(f"{PATH} MEMORY {limit} bytes {form}").buckets
            assert planned(graph, found, demand) <= limit
            assert planned(graph, tuple(b + 1 for b in found), demand) > limit


def test_time_of_the_clock() -> None:
    both = "DETECT F FROM S [Range 1 h], T [Range 1 h] WHERE S.x = T.x BATCH 5 WITHIN"
    assert settings(f"{both} 2 s").within == 2_000_000
    with pytest.raises(QueryError, match="count ticks"):
        compile_query(f"{PATH} BATCH 5 WITHIN 2 s", catalog())


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("DETECT F FROM A [Rows 5] WHERE A.x = 1", "E200", "2 to 16 inputs"),
        ("DETECT F FROM A, B", "E201", "does not relate A and B"),
        ("DETECT F FROM A, B, C WHERE A.x = B.x", "E201", "does not relate \\(A, B\\) and C"),
        ("DETECT F FROM A, B WHERE A.x = B.x AND A.v > B.x", "E202", "another condition"),
        ("DETECT F FROM A, B WHERE A.x <=> B.x", "E202", "<=>"),
        ("DETECT F FROM A, B, C WHERE A.x = B.x + C.z", "E202", "another condition"),
        ("DETECT F FROM Counts, B WHERE Counts.x = B.x", "E203", "Counts is not a window"),
        ("DETECT F FROM A [Partition By x Rows 2], B WHERE A.x = B.x", "E203", "has another key"),
        (
            "DETECT F FROM A [Partition By v Rows 2], B WHERE A.x = B.x PARTITION BY x",
            "E203",
            "has another key",
        ),
        (f"{PATH} PARTITION BY A.x", "E209", "does not equate A.x with an attribute of C"),
        ("DETECT F FROM A, B WHERE A.x + 1 = B.x PARTITION BY A.x", "E209", "attribute of B"),
        (
            "DETECT F FROM A, B WHERE A.x = B.x PARTITION BY x, A.x",
            "E209",
            "already have a column 'x'",
        ),
        ("DETECT F FROM A, B WHERE A.x = B.x PARTITION BY D.x", "E174", "no input 'D'"),
        ("DETECT F FROM A, B WHERE A.x = B.x PARTITION BY q", "E103", "no input has 'q'"),
        ("DETECT F FROM A, B WHERE A.x = B.x PARTITION BY x PARTITION BY x", "E208", "twice"),
        ("DETECT F FROM A, B WHERE A.x = B.x PARTITION x", "E100", "PARTITION"),
        (f"{PATH} PACKING 1.5", "E204", "from 0 to 1"),
        (f"{PATH} BATCH 0", "E205", "at least one"),
        (f"{PATH} BATCH 5 WITHIN -1", "E205", "negative"),
        (f"{PATH} BUCKETS 0", "E206", "32,768"),
        (f"{PATH} BUCKETS 2.5", "E206", "whole numbers"),
        (f"{PATH} BUCKETS 2, 3, 4", "E206", "one for each of the 2 pairs"),
        (f"{PATH} MEMORY 2207 bytes", "E207", "at least 2,208 bytes"),
        (f"{PATH} MEMORY 4 cubits", "E207", "KB"),
        (f"{PATH} BATCH 2 BATCH 3", "E208", "twice"),
        (f"{PATH} VERIFY NEVER PACKING 0.5", "E208", "exclude"),
        (f"{PATH} BUCKETS 4 MEMORY 1 KB", "E208", "exclude"),
        (f"{PATH} COUNTS BITMAPS", "E208", "exclude"),
        (f"{PATH} NOW", "E100", "BATCH, BITMAPS, BUCKETS"),
        (f"Istream({PATH})", "E179", "DETECT gives a stream"),
        (f"CREATE QUERY q AS {PATH} PUBLISH G", "E100", "PUBLISH"),
    ],
)
def test_what_is_refused(text: str, code: str, says: str) -> None:
    with pytest.raises(QueryError, match=says) as error:
        compile_query(text, catalog())
    assert error.value.code == code


def test_by_key() -> None:
    text = """DETECT F FROM A [Partition By x Rows 9] AS a, B [Range 5] AS b, A [Rows 2] AS c
      WHERE a.x = b.x AND c.batch = b.x AND a.batch = c.batch BUCKETS 4 PARTITION BY b.x BATCH 3"""
    found = detection(compile_query(text, catalog()).query.node)
    assert found.partition == (Part("x", BIGINT, ("x", "x", "batch")),)
    assert found.schema.names == ("x", "input", "bound", "verified", "packing")
    assert (found.settings.batch, found.settings.buckets) == (3, (4, 4, 4))
    plain = compile_query(text.replace("Partition By x ", ""), catalog()).query.node
    assert detection(plain) == found  # a window of a key is what all are
    known = catalog()
    load("CREATE STREAM D (batch INT, partition INT, t BIGINT) TIME t;", known)
    words = "DETECT F FROM D AS partition, A WHERE partition.batch = A.batch PARTITION BY batch"
    assert detection(compile_query(words, known).query.node).partition[0].name == "batch"


def test_words_stay_names_elsewhere() -> None:
    known = catalog()
    load("CREATE STREAM detect (batch INT, memory INT, t BIGINT) TIME t;", known)
    compile_query("SELECT detect.batch, memory FROM detect [Rows 3] WHERE batch > 5", known)
    compile_query("SELECT batch AS detect FROM A", known)
    text = "DETECT verify FROM A AS batch, detect WHERE batch.batch = detect.batch BATCH 3"
    query = compile_query(text, known).query
    assert detection(query.node).settings.labels == ("batch", "detect")
    assert query.outputs[-1].publish == "verify"


def test_read_like_any_stream() -> None:
    known = catalog()
    text = f"""
    CREATE QUERY f AS {PATH};
    CREATE QUERY two AS SELECT input FROM FILTER{{verified}} F NEXT{{$1.input = $2.input}} F;
    CREATE QUERY inline AS SELECT n FROM (SELECT count(*) AS n FROM (DETECT G FROM Dear [Rows 5],
      B [Rows 5] WHERE Dear.x = B.x) [Range 60] GROUP BY input);
    CREATE VIEW Alarm AS DETECT FROM A [Rows 5], B [Rows 5] WHERE A.x = B.x;
    CREATE QUERY all_alarms AS SELECT count(*) AS n FROM Alarm [Range 10];
    """
    assert [q.id for q in load(text, known).queries] == ["f", "two", "inline", "all_alarms"]


def test_a_view_publishes_nothing() -> None:
    with pytest.raises(Exception, match="a view cannot publish"):
        load(f"CREATE VIEW V AS {PATH};", catalog())


def test_texts_that_differ_in_constants() -> None:
    """Constants of WHERE and of windows are data; how a detection is answered is what it is."""
    known = catalog()

    def template(rest: str, rows: int = 9, above: float = 1.0) -> object:
        text = f"DETECT F FROM A [Rows {rows}], B [Rows 2] WHERE A.x = B.x AND A.v > {above} {rest}"
        return compile_query(text, known).query.template

    assert template("BATCH 5") is template("BATCH 5", 10, 2.5)
    assert template("BATCH 5") is not template("BATCH 6")
    assert template("PACKING 0.5") is not template("PACKING 0.6")


def test_parameters() -> None:
    text = """CREATE QUERY f FOR EACH (above DOUBLE, span BIGINT) AS
      DETECT F FROM A [Range :span], B [Rows 2] WHERE A.x = B.x AND A.v > :above"""
    prepared = prepare(text, {"id": ["p", "q"], "above": [1.0, 2.0], "span": [5, 6]}, catalog())
    assert prepared.members.ids.to_pylist() == ["f/p", "f/q"]
    with pytest.raises(QueryError, match="take numbers") as error:
        prepare(f"{text} BATCH :span", {}, catalog())
    assert error.value.code == "E205"
