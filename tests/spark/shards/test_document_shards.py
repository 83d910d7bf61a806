"""Documents divided by value, without a JVM: each result once, each document once on a shard."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import braid
from braid.distribution.distribution import Distribution, distribute
from braid.distribution.document_routes import ValueRoute, is_value_route
from braid.distribution.keys import split_channel
from braid.documents import reader as document_reader
from braid.documents.reader import DocumentReader
from braid.documents.xml_table import read_xml
from braid.engine.io.ingest import Ingest
from braid.engine.options import Options, ShardOptions
from braid.lang import Catalog, compile_query
from braid.lang.catalog.load import load
from braid.operators.documents import value_order as document_order
from braid.spark.pipeline.envelopes import EVENTS, LATE, REFUSED, RESULT, open_payload, open_table
from braid.spark.pipeline.ingest import IngestJob
from braid.spark.pipeline.routing import document_shards
from braid.spark.pipeline.shipping import Shipped
from braid.spark.shards import hosting
from braid.spark.shards.checkpoint import SavedPlan
from braid.spark.shards.processor import ShardProcessor
from braid.spark.shards.shards import ShardJob
from tests.spark.shards.test_shards import Store

STREAMS = "CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;"
QUERIES = {
    "followed": "SELECT document_1, document_2, x FROM S//a->x FOLLOWED BY{x = y, 4} S//b->y",
    "near": "SELECT document_1, document_2, x, z FROM S//r->r[./a->x][./b->z] JOIN{x = y, 2} S//b->y",
    "ordered": "SELECT document_1, document_2, y FROM S//b->y[./@k->k] "
    "FOLLOWED BY{y = x AND k < l, 9} S//a->x[./@k->l]",
    "block": "SELECT document, x FROM S//a->x",
}
LABELS = (7, 3, 5)


def catalog_of(queries: dict[str, str]) -> Catalog:
    catalog = Catalog()
    load(STREAMS, catalog)
    for name, text in queries.items():
        catalog.add_query(compile_query(text, catalog, query_id=name).query)
    return catalog


class Cluster:
    """Three shards; `restart` forgets every engine, so that states are read from the stores."""

    def __init__(self, queries: dict[str, str]) -> None:
        self._catalog = catalog_of(queries)
        self.distribution = distribute(self._catalog.members(), self._catalog.streams, len(LABELS))
        saved = SavedPlan.of(self.distribution).to_json().encode()
        self._job = Shipped(
            ShardJob(self.distribution, LABELS, ShardOptions(Options(idle_timeout=None)), saved)
        )
        self._stores = {label: Store() for label in LABELS}
        self.late: list[Any] = []
        self.rejected: list[tuple[str, str]] = []

    def restart(self) -> None:
        hosting._ENGINES = OrderedDict()

    def envelopes(self, table: pa.Table) -> list[pa.RecordBatch]:
        routes = self.distribution.routes
        (stream,) = self._catalog.streams.values()
        ingest = IngestJob(Ingest(stream), routes, LABELS, True)
        return list(ingest(iter(table.to_batches())))

    def batch(self, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        frames = [b.to_pandas().assign(now=1) for b in self.envelopes(table)]
        for label in LABELS:
            processor = ShardProcessor(self._job, "documents")
            processor.init(self._stores[label])
            own = [frame[frame["shard"] == label] for frame in frames]
            for out in processor.handleInputRows((label,), iter(own), None):
                for row in out.itertuples():
                    if row.kind == RESULT:
                        (part,) = open_payload(row.pairs)
                        rows = open_table(row.payload).take(part.column("row")).to_pylist()
                        names = part.column("query").to_pylist()
                        yield from map(_result, names, rows)
                    elif row.kind == LATE:
                        self.late += open_table(row.payload).column("id").to_pylist()
                    elif row.kind == REFUSED:
                        rows = open_table(row.payload).to_pylist()
                        self.rejected += [(r["stream"], json.loads(r["row"])["doc"]) for r in rows]


def _result(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    return (name, *(v for k, v in sorted(row.items()) if not k.startswith("__") and k not in TIMES))


TIMES = {"start", "end"}


def table_of(documents: list[tuple[str, int]]) -> pa.Table:
    columns = {
        "id": [f"d{k}" for k, _ in enumerate(documents)],
        "doc": [text for text, _ in documents],
        "t": [t for _, t in documents],
    }
    return pa.table(
        columns, pa.schema([("id", pa.string()), ("doc", pa.string()), ("t", pa.int64())])
    )


def alone(queries: dict[str, str], table: pa.Table) -> Counter[tuple[Any, ...]]:
    engine = braid.Engine(idle_timeout=None)
    engine.execute(STREAMS)
    for name, text in queries.items():
        engine.query(name, text)
    engine.process({"S": table})
    found: Counter[tuple[Any, ...]] = Counter()
    for (name, _), results in engine.results.items():
        found.update(_result(name, row) for row in results.to_pylist())
    return found


leaf = st.builds(
    lambda name, key, value: f'<{name} k="{key}">{value}</{name}>',
    st.sampled_from("ab"), st.integers(0, 2), st.sampled_from(["1", "2", "3", "4", "x"]),
)  # fmt: skip
texts = st.lists(leaf, max_size=4).map(lambda leaves: f"<r>{''.join(leaves)}</r>")


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(texts, st.integers(0, 2)), min_size=2, max_size=8), st.integers(0, 8))
def test_shards_find_together_what_one_engine_finds(steps: list[tuple[str, int]], cut: int) -> None:
    documents: list[tuple[str, int]] = []
    for text, gap in steps:
        documents.append((text, gap + (documents[-1][1] if documents else 0)))
    documents.append(("<end/>", documents[-1][1] + 1))
    cluster = Cluster(QUERIES)
    table = table_of(documents)
    # Values are sorted at once, also among documents that are equal.
    with patch.multiple(document_order, FEWEST=1, FEW=0, PATIENCE=0):
        found = list(cluster.batch(table.slice(0, cut)))
        cluster.restart()
        found += list(cluster.batch(table.slice(cut)))
    assert Counter(found) == alone(QUERIES, table)


def test_a_document_travels_once_to_a_shard() -> None:
    cluster = Cluster({k: QUERIES[k] for k in ("followed", "ordered")})
    leaves = "".join(f"<a>{k}</a><b>{k}</b>" for k in range(20))
    table = table_of([(f"<r>{leaves}</r>", 1), ("<c>1</c>", 2)])
    rows = pa.Table.from_batches(cluster.envelopes(table)).to_pylist()
    sent = Counter((row["shard"], row["channel"]) for row in rows if row["kind"] == EVENTS)
    documents = sum(row["rows"] for row in rows if row["kind"] == EVENTS)
    assert set(sent.values()) == {1}
    assert documents == len(LABELS) + 1  # what has no value goes to one


def test_documents_that_every_shard_gets_anyway_do_not_travel_by_their_values_too() -> None:
    """Many queries with two joins are divided by their ids, and so every shard has all documents."""
    two = "S//r->r[./a->x][./b->z] JOIN{{x = y AND z = y, {}}} S//b->y"
    queries = {f"two{k}": f"SELECT document_1, x FROM {two.format(k)}" for k in range(6)}
    queries["followed"] = QUERIES["followed"]
    cluster = Cluster(queries)
    texts = ["<r><a>1</a><b>1</b></r>", "<r><b>1</b></r>", "<r><a>2</a></r>", "<r><b>2</b></r>"]
    table = table_of([(text, t) for t, text in enumerate([*texts, "<end/>"])])
    rows = pa.Table.from_batches(cluster.envelopes(table)).to_pylist()
    sent = Counter(row["channel"] for row in rows if row["kind"] == EVENTS)
    assert sent == {"S@*": len(LABELS)}
    assert Counter(cluster.batch(table)) == alone(queries, table)


def test_late_documents_are_shown_once() -> None:
    cluster = Cluster({"followed": QUERIES["followed"]})
    list(cluster.batch(table_of([("<r><a>1</a></r>", 50)])))
    leaves = "".join(f"<a>{k}</a>" for k in range(20))
    list(cluster.batch(table_of([(f"<r>{leaves}</r>", 1), ("<c/>", 2)])))
    assert cluster.late == ["d0", "d1"]


def placed(queries: dict[str, str]) -> Distribution:
    catalog = catalog_of(queries)
    return distribute(catalog.members(), catalog.streams, 2)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (QUERIES["followed"], "S by the values of a, b in doc"),
        ("S//*->x FOLLOWED BY{x = y, 4} S//b->y", "S by the values of every element in doc"),
        (QUERIES["block"], "S by ?"),
        ("S//r->r[./a->x][./b->z] JOIN{x = y AND z = y, 2} S//b->y", "joined by 2 values at once"),
        ("S//a->x JOIN{x < y, 2} S//b->y", "joined by no equal value"),
        ("S//r->r JOIN{r/a = s/b, 2} S//r->s", "has no variable"),
    ],
)
def test_where_queries_run(query: str, reason: str) -> None:
    (component,) = placed({"q": query}).components
    assert reason in component.reason
    assert component.mode == ("keyed" if reason.startswith("S by") else "whole")


def test_queries_agree_on_one_route() -> None:
    """Whatever elements they name, so that no document travels twice."""
    text = "S//{}->x FOLLOWED BY{{x = y, 4}} S//b->y"
    found = placed({name: text.format(name) for name in "acd"})
    assert {c.channels for c in found.components} == {('S@=["doc",["a","b","c","d"]]',)}


def test_what_is_published_is_located_by_the_value() -> None:
    queries = {
        "pairs": f"{QUERIES['followed']} PUBLISH Pairs",
        "next": "SELECT x FROM Pairs NEXT{$1.x = $2.x} Pairs",
    }
    (component,) = placed(queries).components
    assert component.mode == "keyed"


def test_a_document_without_such_a_value_goes_to_one_shard() -> None:
    table = table_of([("<c>1</c>", 1), ("<r><a>1</a><a>1</a></r>", 2)])
    rows, _ = document_shards(table, ValueRoute("doc", frozenset({"a"})), 16, DocumentReader())
    assert rows.tolist() == [0, 1]


@pytest.mark.parametrize("count", [4_097, 20_000])
def test_ingest_parses_a_document_once(count: int) -> None:
    """To check it and to route it by its values."""
    cluster = Cluster(QUERIES)
    assert any(is_value_route(split_channel(name)[1]) for name, _ in cluster.distribution.filled)
    calls: Counter[str] = Counter()

    def parse(text: str) -> Any:
        calls[text] += 1
        return read_xml(text)

    with patch.object(document_reader, "read_xml", parse):
        cluster.envelopes(table_of([(f"<r><a>{n}</a></r>", n) for n in range(count)]))
    assert len(calls) == count
    assert calls.total() == count


def rejected_by(queries: dict[str, str], streams: str) -> list[tuple[str, str]]:
    """What three shards reject together, of a document that is read and one that cannot be."""
    with patch.dict(globals(), STREAMS=streams):
        cluster = Cluster(queries)
    ids, texts = ["d0", "d1", "d2"], ["<a>1</a>", "<a>A & B</a>", "<a>2</a>"]
    table = pa.table({"id": ids, "doc": texts, "t": pa.array([1, 2, 3], pa.int64())})
    for part in (table, table.slice(2)):
        list(cluster.batch(part))
    return sorted(cluster.rejected)


@pytest.mark.parametrize(
    "queries",
    [
        {"block": "SELECT x FROM T//a->x"},
        {"keyed": "SELECT x FROM T//a->x FOLLOWED BY{x = y, 9} T//a->y"},
        {"whole": "SELECT x FROM T//a->x FOLLOWED BY{x != y, 9} T//a->y"},
        {
            f"whole{n}": f"SELECT x FROM T//a->x FOLLOWED BY{{x != y, {n}}} T//a->y"
            for n in range(9)
        },
        {
            "whole": "SELECT x FROM T//a->x FOLLOWED BY{x != y, 9} T//a->y",
            "keyed": "SELECT x FROM T//a->x FOLLOWED BY{x = y, 9} T//a->y",
            "block": "SELECT x FROM T//a->x",
            "ids": "SELECT id FROM T NEXT{$1.id = $2.id} T",
        },
        {
            "whole": "SELECT x FROM T//a->x FOLLOWED BY{x != y, 9} T//a->y",
            "ids": "SELECT doc FROM T NEXT{$1.id = $2.id} T",
        },
    ],
)
def test_shards_reject_a_text_that_is_no_document_once(queries: dict[str, str]) -> None:
    """Whichever shards it comes to, and by however many channels."""
    plain = STREAMS.replace("STREAM S", "STREAM T").replace("XML", "STRING")
    assert rejected_by(queries, plain) == [("T", "<a>A & B</a>")]


def test_shards_reject_what_is_published_and_no_document() -> None:
    queries = {
        "p": "SELECT doc, id FROM FILTER{id <> 'd0'}(T) PUBLISH P",
        "z": "SELECT z FROM P//a->z",
        "y": "SELECT z FROM P//a->z FOLLOWED BY{z = y, 9} P//a->y",
    }
    plain = STREAMS.replace("STREAM S", "STREAM T").replace("XML", "STRING")
    assert rejected_by(queries, plain) == [("P", "<a>A & B</a>")]
