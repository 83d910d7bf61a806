"""Placement of queries: what can be keyed, what cannot and why, and that it stays where it was."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from braid.algebra.expressions import TRUE, Call, Expression, Ref, Source, conjunction
from braid.algebra.nodes import (
    Aggregate,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
)
from braid.algebra.queries import Members, Output, Query, Template
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP
from braid.distribution.distribution import (
    Distribution,
    EarlierPlacements,
    Placement,
    channels_for,
    distribute,
    explain,
)
from braid.distribution.keys import leaves
from braid.distribution.live_placement import LivePlacement, PlacementRefused
from braid.errors import CheckpointError

COLUMNS = Schema.of(
    [("Name", STRING), ("Buyer", STRING), ("Lot", pa.int32()), ("Price", DOUBLE), ("ts", TIMESTAMP)]
)
STOCK = Stream("Stock", COLUMNS, ("ts",))
NEWS = Stream("News", Schema.of([("About", STRING), ("Size", BIGINT), ("ts", TIMESTAMP)]), ("ts",))
STREAMS = {"Stock": STOCK, "News": NEWS}


def read(stream: Stream = STOCK) -> Read:
    return Read(stream.name, stream.schema, stream.unit)


def ref(source: Source, node: Node, name: str) -> Ref:
    return Ref(source, name, node.schema.type_of(name))


def equal(left: Expression, right: Expression) -> Call:
    return Call("eq", (left, right), BOOLEAN)


def following(first: Node, second: Node, *pairs: tuple[str, str]) -> Sequence:
    parts = tuple(
        equal(ref(Source.FIRST, first, a), ref(Source.SECOND, second, b)) for a, b in pairs
    )
    names = (*(f"{n}_1" for n in first.schema.names), *second.schema.names)
    return Sequence(first, second, conjunction(parts), names)


def folded(first: Node, second: Node, *parts: Expression, **aggregates: Expression) -> Iterate:
    return Iterate(first, second, conjunction(parts), TRUE, tuple(aggregates.items()))


def query(name: str, node: Node, publish: str | None = None) -> Query:
    return Query(name, "", (Output(node, publish),))


def reading(q: Query) -> Read:
    name = q.publishes[-1]
    return Read(name, q.node.schema, q.node.unit)


def ids(groups) -> list[str]:
    return [name for members in groups for name in members.ids.to_pylist()]


def placement(distribution: Distribution, name: str) -> Placement:
    return next(p for members, p in distribution.placed() if name in members.ids.to_pylist())


def only(node: Node):
    return distribute([query("q", node)], STREAMS, 2).components[0]


@pytest.mark.parametrize(
    ("node", "channels"),
    [
        (following(read(), read(), ("Name", "Name")), ("Stock@Name",)),
        (following(read(), read(), ("Name", "Buyer")), ("Stock@Name", "Stock@Buyer")),
        (following(read(NEWS), read(), ("About", "Name")), ("News@About", "Stock@Name")),
        (
            following(
                following(read(), read(), ("Name", "Name")), read(NEWS), ("Name_1", "About")
            ),
            ("Stock@Name", "News@About"),
        ),
        (following(Union(read(), read()), read(), ("Lot", "Lot")), ("Stock@Lot",)),
        (
            folded(read(), read(), equal(*(ref(s, read(), "Name") for s in (Source.SECOND, Source.LAST)))),
            ("Stock@Name",),
        ),
        (
            folded(read(), read(), equal(ref(Source.SECOND, read(), "Buyer"), ref(Source.FIRST, read(), "Name"))),
            ("Stock@Name", "Stock@Buyer"),
        ),
    ],
)  # fmt: skip
def test_equality_on_traced_attributes_keys_a_component(node, channels):
    component = only(node)
    assert (component.mode, component.channels) == ("keyed", channels)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (following(read(), read()), "NEXT does not relate"),
        (
            following(following(read(), read(), ("Name", "Name")), read(), ("Buyer", "Buyer")),
            r"\$1.Buyer = \$2.Buyer",
        ),
        (SameTime(read(), (Aggregate("n", "count", (), False, BIGINT),)), "SAMETIME"),
        # $.a of another attribute is a chain of values, not one value.
        (
            folded(read(), read(), equal(ref(Source.SECOND, read(), "Buyer"), ref(Source.LAST, read(), "Name"))),
            "FOLD",
        ),
        # An aggregate of the same name changes the value that `$.` carries.
        (
            folded(
                read(),
                read(),
                equal(ref(Source.SECOND, read(), "Lot"), ref(Source.LAST, read(), "Lot")),
                Lot=ref(Source.SECOND, read(), "Lot"),
            ),
            "FOLD",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_keyed_is_whole_and_says_why(node, reason):
    component = only(node)
    assert component.mode == "whole"
    assert component.shard == 0

    assert re.search(reason, component.reason)


def test_projection_passes_plain_copies_and_widening_casts():
    wide = Call("cast", (ref(Source.INPUT, read(), "Lot"),), BIGINT)
    copied = Project(read(), (("lot", wide), ("p", ref(Source.INPUT, read(), "Price"))))
    assert only(following(copied, read(NEWS), ("lot", "Size"))).channels == (
        "Stock@Lot",
        "News@Size",
    )
    computed = Call("add", (wide, wide), BIGINT)
    assert (
        only(following(Project(read(), (("lot", computed),)), read(NEWS), ("lot", "Size"))).mode
        == "whole"
    )


def test_stateless_queries_are_spread_and_ride_on_a_keyed_channel():
    plain = query("plain", Select(read(), TRUE))
    assert distribute([plain], STREAMS, 2).components[0].channels == ("Stock@?",)
    keyed = query("keyed", following(read(), read(), ("Buyer", "Buyer")))
    found = distribute([plain, keyed], STREAMS, 2)
    assert [c.mode for c in found.components] == ["spread", "keyed"]
    assert found.components[0].channels == ("Stock@Buyer",)
    assert not found.is_stateless


def test_readers_of_a_published_stream_agree_on_its_route():
    # Jump could be located by Name or by Lot; only its reader decides for Lot.
    jump = query("jump", following(read(), read(), ("Name", "Name"), ("Lot", "Lot")), "Jump")
    again = query("again", following(reading(jump), read(), ("Lot", "Lot")))
    found = distribute([again, jump], STREAMS, 2)
    assert found.components[0].mode == "keyed"
    assert found.components[0].channels == ("Stock@Lot",)
    clash = query("clash", following(reading(jump), read(), ("Name", "Name")))
    assert distribute([jump, again, clash], STREAMS, 2).components[0].mode == "whole"


def test_components_are_whole_on_different_shards_and_late_events_show_once():
    nodes = [following(read(), read()), following(read(NEWS), read())]
    found = distribute([query(f"q{i}", n) for i, n in enumerate(nodes)], STREAMS, 2)
    assert [c.shard for c in found.components] == [0, 1]
    assert found.routes["Stock"].whole == (0, 1)
    assert [found.shows_late(s, "Stock@*") for s in range(2)] == [True, False]
    assert [found.shows_late(s, "News@*") for s in range(2)] == [False, True]
    assert "not keyed" in explain(found)


def test_a_shard_reads_channels():
    keyed = query("keyed", following(read(), read(), ("Name", "Buyer")))
    whole = query("whole", following(read(NEWS), read(NEWS)))
    found = distribute([keyed, whole], STREAMS, 2)
    plan = channels_for(found, 1)
    assert ids(plan.queries) == ["keyed"]
    (output,) = plan.queries[0].template.outputs
    assert [r.stream for r in leaves(output.node)] == ["Stock@Name", "Stock@Buyer"]
    # News is read elsewhere: this shard follows its time, and gets none of its events.
    assert plan.channels == {"Stock@Name": "Stock", "Stock@Buyer": "Stock"}
    assert set(plan.streams) == {"Stock", "News"}
    assert ids(channels_for(found, 0).queries) == ["keyed", "whole"]


def test_kept_queries_stay_and_new_ones_fill_the_least_loaded_shard():
    a, b, c = (query(n, following(read(), read())) for n in "abc")
    before = distribute([a, b, c], STREAMS, 2)
    assert [x.shard for x in before.components] == [0, 1, 0]
    after = distribute([c, query("d", following(read(), read()))], STREAMS, 2, before.kept)
    assert [x.shard for x in after.components] == [0, 1]


def test_a_change_that_would_move_state_is_refused_with_the_reason():
    jump = query("jump", following(read(), read(), ("Name", "Name")), "Jump")
    before = distribute([jump], STREAMS, 2)
    reader = query("reader", following(reading(jump), read()))
    with pytest.raises(CheckpointError, match=r"'reader' added.*cannot be keyed") as error:
        distribute([jump, reader], STREAMS, 2, before.kept)
    assert "new checkpoint" in str(error.value)
    fits = query("fits", following(reading(jump), read(), ("Name", "Name")))
    after = distribute([jump, fits], STREAMS, 2, before.kept)
    assert placement(after, "jump") == placement(before, "jump")


def test_whole_components_that_become_linked_on_two_shards_are_refused():
    a = query("a", following(read(), read()), "A")
    b = query("b", following(read(), read()), "B")
    before = distribute([a, b], STREAMS, 2)
    link = query("link", following(reading(a), reading(b)))
    with pytest.raises(CheckpointError, match="one shard"):
        distribute([a, b, link], STREAMS, 2, before.kept)
    kept = EarlierPlacements.of([(pa.array(["a"]), replace(placement(before, "a"), shard=1))])
    assert distribute([a, b, link], STREAMS, 2, kept).components[0].shard == 1


def many(count: int, first: int = 0) -> Members:
    """Queries of one template that cannot be keyed and publish nothing."""
    return Members(PAIR, pa.array([f"m/{i}" for i in range(first, first + count)]), ())


PAIR = Template((Output(following(read(), read()), None),))


def test_whole_queries_of_one_template_are_split_by_their_ids_for_ever():
    found = distribute([many(1000)], STREAMS, 2)
    (component,) = found.components
    assert (component.mode, component.shard) == ("whole", None)
    assert found.routes["Stock"].whole == (0, 1)
    shares = [ids(channels_for(found, shard).queries) for shard in range(2)]
    assert sorted(shares[0] + shares[1]) == sorted(ids([many(1000)]))
    assert min(map(len, shares)) > 400
    # Others come and go: each of them stays where it was, and one alone is no reason to move.
    after = distribute([many(501, 499)], STREAMS, 2, found.kept)
    for shard in range(2):
        now = ids(channels_for(after, shard).queries)
        assert set(now) & set(ids([many(501, 499)])) <= set(shares[shard]) | {"m/1000"}
    last = distribute([many(1, 7)], STREAMS, 2, found.kept)
    assert [c.is_split for c in last.components] == [True]


def test_a_query_fits_into_the_routes_in_place_or_says_what_it_needs():
    jump = query("jump", following(read(), read(), ("Name", "Name")), "Jump")
    placement = LivePlacement(distribute([jump], STREAMS, 2))
    keyed = Template((Output(following(reading(jump), read(), ("Name", "Name")), None),))
    assert placement.place("a", keyed).routes == (("Jump", "Stock@Name"),)
    plain = Template((Output(Select(read(), TRUE), None),))
    assert placement.place("b", plain).routes == (("Stock@Name",),)
    for name, node, wanted in (
        ("other key", following(read(), read(), ("Lot", "Lot")), {"Stock@Lot"}),
        ("whole", following(read(), read()), {"Stock@*"}),
        ("unread", Select(read(NEWS), TRUE), {"News@?"}),
        # What is divided over the shards cannot be put together again.
        ("impossible", following(reading(jump), read()), set()),
    ):
        with pytest.raises(PlacementRefused) as refusal:
            placement.place(name, Template((Output(node, None),)))
        assert {channel for channel, _ in refusal.value.wanted} == wanted, name
    with_all = LivePlacement(distribute([jump, query("w", following(read(), read()))], STREAMS, 2))
    assert with_all.place("whole", PAIR).shard == 0
    # All events of Stock are on the shard: what could be keyed otherwise is content with that.
    lot = Template((Output(following(read(), read(), ("Lot", "Lot")), None),))
    assert with_all.place("lot", lot).mode == "whole"
