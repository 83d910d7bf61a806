"""The shared plan explained: as text, as JSON, as a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pyarrow as pa
import pytest

import braid
from braid.engine.explain.plan_svg import LETTERS, MOST_BOXES, _safe

STOCK = pa.schema([("Name", pa.string()), ("Price", pa.float64()), ("t", pa.int64())])
TIMED = pa.schema([("Name", pa.string()), ("Price", pa.float64()), ("t", pa.timestamp("us"))])
SVG = "{http://www.w3.org/2000/svg}"
JUMP = """SELECT Name, Price_1 AS low, Price AS high
          FROM Stock NEXT{$1.Name = $2.Name AND $2.Price > $1.Price AND DUR <= 100} Stock"""


def engine(schema: pa.Schema = STOCK, **options: object) -> braid.Engine:
    made = braid.Engine(**options)
    made.stream("Stock", schema, time="t")
    return made


def step(predicate: str, schema: pa.Schema = STOCK, **options: object) -> str:
    made = engine(schema, **options)
    made.query("q", f"SELECT Name FROM Stock NEXT{{{predicate}}} Stock")
    return str(made.explain())


def test_what_each_m_op_does_for_whom_and_who_made_it() -> None:
    e = engine()
    e.query("jump", f"{JUMP} PUBLISH Jump")
    e.query("same", JUMP)
    text = e.explain()
    for line in (
        "plan of 2 queries: 1 m-op, 2 exits",
        "  Stock: Name STRING, Price DOUBLE",
        "  reads stream Stock, stream Stock",
        "  2 members jump, same",
        "  AI index: hash on $2.Name = $1.Name",
        "  1 group, 1 state, 1 output",
        "  expires after 100 ticks",
        "  merged by s_seq, t_seq from 2 sequences",
        "    s_seq: equal sequences of the same streams are one state",
        "  Jump: Name, low, high",
    ):
        assert line in text.splitlines(), line


def test_how_instances_are_found() -> None:
    assert "no index: every instance is looked at" in step("$2.Price > $1.Price")
    assert "by the constants asked of $2.Name (1)" in step("$2.Name = 'IBM'")
    assert "no index: every instance is looked at" in step("$1.Name = $2.Name", rules="none")


def test_how_long_instances_live() -> None:
    assert "  unbounded" in step("$1.Name = $2.Name").splitlines()
    assert "expires after 10 min" in step("$1.Name = $2.Name AND DUR <= 10 min", TIMED)


def test_a_range_of_bounds() -> None:
    e = engine(TIMED)
    text = "SELECT Name FROM Stock NEXT{DUR <= :long} Stock NEXT{DUR <= :long} Stock"
    text = f"CREATE QUERY q FOR EACH (long INTERVAL) AS {text}"
    lengths = pa.array([5_000_000, 600_000_000], pa.duration("us"))
    e.query("q", text, pa.table({"long": lengths}))
    assert "expires after 5 s to 10 min" in e.explain()


def test_forward_edges_inline_and_indexed() -> None:
    def forward(members: int) -> str:
        e = engine()
        text = "SELECT Name FROM FILTER{Price = :p}(Stock NEXT{$1.Name = $2.Name} Stock)"
        rows = pa.table({"p": [float(i) for i in range(members)]})
        e.query("q", f"CREATE QUERY q FOR EACH (p DOUBLE) AS {text}", rows)
        return str(e.explain())

    assert "forward: 3 edges inline" in forward(3)
    assert "FR index:" in forward(100)


def test_selections_with_their_index() -> None:
    e = engine()
    rows = pa.table({"who": [f"n{i}" for i in range(500)]})
    e.query("big", "CREATE QUERY big FOR EACH (who STRING) AS FROM FILTER{Name = :who} Stock", rows)
    text = e.explain()
    assert "index: access predicates; 1 hash class: Name; 500 clauses" in text
    assert "merged by s_sigma from 500 selections: selections of one stream share an index" in text
    assert "500 members big/0, big/1, big/2 and 497 more" in text
    assert "  500 queries like big/0" in text
    assert "(channel of 500 members, 500 member nodes)" in text


def test_selections_one_after_the_other() -> None:
    e = engine(rules=["d_sigma"])
    e.query("a", "FROM FILTER{Price < 1} Stock")
    e.query("b", "FROM FILTER{Price < 2} Stock")
    assert "merged by d_sigma from 2 selections" in e.explain()
    alone = engine(rules="none")
    alone.query("a", "FROM FILTER{Price < 1} Stock")
    assert "merged by no rule: 1 selection" in alone.explain()


def test_one_query_has_its_own_way_and_automaton() -> None:
    e = engine()
    e.query("jump", JUMP)
    e.query("cheap", "FROM FILTER{Price < 1} Stock PUBLISH Cheap")
    text = e.explain("cheap")
    assert text.startswith("plan of query cheap: 1 m-op, 1 exit")
    assert "sequence" not in text
    assert "automaton cheap" in text
    assert [m["kind"] for m in e.explain("jump").to_dict()["mops"]] == ["sequence"]


def test_a_prepared_query_and_one_of_its_members() -> None:
    e = engine()
    e.query(
        "big",
        "CREATE QUERY big FOR EACH (who STRING) AS FROM FILTER{Name = :who} Stock",
        pa.table({"who": ["a", "b"], "id": ["x", "y"]}),
    )
    assert "$2.Name = :1" in e.explain("big")
    assert "$2.Name = 'b'" in e.explain("big/y")
    with pytest.raises(braid.BraidError, match=r"E134(?s:.*)big"):
        e.explain("big/z")


def test_published_streams_that_are_read_as_they_are() -> None:
    e = engine()
    e.query(
        "big",
        "CREATE QUERY big FOR EACH (who STRING) AS FROM FILTER{Name = :who} Stock PUBLISH Big",
        pa.table({"who": ["a", "b"]}),
    )
    e.query("reader", "FROM FILTER{Price < 1} Big PUBLISH Small")
    text = e.explain("reader")
    assert "publish:Big publication: publish Big" in text
    assert ET.fromstring(e.explain("reader").svg()) is not None


def test_it_is_its_own_text() -> None:
    e = engine()
    e.query("jump", JUMP)
    shown = e.explain()
    assert isinstance(shown, str)
    assert repr(shown) == str(shown) == "".join(shown)
    assert shown._repr_svg_() == shown.svg()


def test_json_has_what_the_text_says() -> None:
    e = engine()
    e.query("jump", f"{JUMP} PUBLISH Jump")
    e.query("cheap", "FROM FILTER{Price < 1} Stock PUBLISH Cheap")
    found = json.loads(json.dumps(e.explain().to_dict()))
    assert found["queries"] == 2
    assert found["streams"][0]["columns"][0] == {"name": "Name", "type": "STRING"}
    by_kind = {mop["kind"]: mop for mop in found["mops"]}
    assert by_kind["selection"]["rules"] == ["s_sigma"]
    assert by_kind["selection"]["outputs"][0]["membered"]
    assert not by_kind["sequence"]["inputs"][0]["membered"]
    assert {e["stream"] for e in found["exits"]} == {"Jump", "Cheap"}


def test_an_empty_plan() -> None:
    e = engine()
    assert e.explain().startswith("plan of 0 queries: 0 m-ops, 0 exits")
    assert ET.fromstring(e.explain().svg()).tag == f"{SVG}svg"


# ---- pictures ----


def boxes(svg: str) -> dict[str, list[list[str]]]:
    """The lines of every box, by kind."""
    found: dict[str, list[list[str]]] = {}
    for group in ET.fromstring(svg.encode()).iter(f"{SVG}g"):
        kind = group.attrib["class"].removeprefix("box ")
        found.setdefault(kind, []).append([text.text or "" for text in group.iter(f"{SVG}text")])
    return found


def paths(svg: str) -> list[dict[str, str]]:
    return [path.attrib for path in ET.fromstring(svg.encode()).iter(f"{SVG}path")]


@pytest.fixture(scope="module")
def large() -> braid.Engine:
    """100,000 members of one query, and sixty queries beside them."""
    count = 100_000
    e = engine()
    rows = pa.table({"who": [f"n{i}" for i in range(count)], "floor": [1.0] * count})
    text = "SELECT Name FROM FILTER{Name = :who AND Price > :floor}(Stock) PUBLISH Big"
    e.query("big", f"CREATE QUERY big FOR EACH (who STRING, floor DOUBLE) AS {text}", rows)
    for i in range(60):
        shown = f"concat(Name, '{i}') AS p{i}"
        text = f"SELECT {shown} FROM FILTER{{Price < {i}}} Stock PUBLISH P{i}"
        e.query(f"s{i}", text)
    return e


def test_a_picture_of_100000_queries_has_few_boxes(large: braid.Engine) -> None:
    found = boxes(large.explain().svg())
    assert sum(map(len, found.values())) <= MOST_BOXES
    assert found["stream"] == [["Stock", "stream", "2 columns"]]
    (selection,) = found["selection"]
    assert selection[1:] == ["100,060 members", "index: access predicates", "100,060 clauses"]
    assert ["Big", "100,000 queries"] in found["exit"]
    assert any("more projections" in lines[0] for lines in found["projection"])
    every = [lines for kind in found.values() for lines in kind]
    assert all(len(lines) <= 4 for lines in every)
    assert all(len(line) <= LETTERS for lines in every for line in lines)


def test_what_is_folded_adds_up(large: braid.Engine) -> None:
    found = boxes(large.explain().svg())
    drawn = [int(lines[1].split()[0].replace(",", "")) for lines in found["exit"]]
    assert sum(drawn) == 100_060


def test_lines_are_thick_for_many_and_dashed_with_members(large: braid.Engine) -> None:
    found = paths(large.explain().svg())
    thick = [float(path["stroke-width"]) for path in found]
    assert max(thick) > 5 > 2 > min(thick)
    plain = [path for path in found if "stroke-dasharray" not in path]
    assert len(plain) == 1, "only the stream itself has no members"


def test_boxes_do_not_overlap(large: braid.Engine) -> None:
    root = ET.fromstring(large.explain().svg().encode())
    places = []
    for group in root.iter(f"{SVG}g"):
        (rect,) = group.iter(f"{SVG}rect")
        x, y = float(rect.attrib["x"]), float(rect.attrib["y"])
        places.append((x, y, x + float(rect.attrib["width"]), y + float(rect.attrib["height"])))
    for i, a in enumerate(places):
        assert a[2] <= float(root.attrib["width"])
        assert a[3] <= float(root.attrib["height"])
        for b in places[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_the_text_of_a_large_plan_is_short(large: braid.Engine) -> None:
    assert len(large.explain()) < 100_000


def test_names_that_xml_must_not_see() -> None:
    e = braid.Engine()
    e.stream("S<&>", STOCK, time="t")
    e.query("q", "SELECT Name AS `a<b` FROM FILTER{Price < 1} `S<&>` PUBLISH `<P>`")
    found = boxes(e.explain().svg())
    assert found["stream"][0][0] == "S<&>"
    assert found["exit"][0][0] == "<P>"
    assert _safe("a\x00\ud800<") == "a\ufffd\ufffd&lt;"


def test_a_deep_plan_is_folded_too() -> None:
    e = engine()
    text = "(SELECT Name FROM Stock)"
    for i in range(30):
        text = f"(SELECT Name FROM {text} NEXT{{$1.Name = $2.Name AND $2.Price > {i}}} Stock)"
    e.query("deep", f"SELECT Name FROM {text}")
    found = boxes(e.explain().svg())
    assert sum(map(len, found.values())) <= MOST_BOXES
