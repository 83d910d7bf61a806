"""Whatever form data comes in, the events are the same, and so is the form that they have then."""

from __future__ import annotations

import pyarrow as pa
import pytest

import braid
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.engine.io.ingest import Ingest
from braid.errors import ConfigError

READINGS = pa.table(
    {
        "at": pa.array(range(20), pa.int64()),
        "n": pa.array([k * k for k in range(20)], pa.int64()),
        "x": pa.array([k / 4 for k in range(20)], pa.float64()),
        "who": pa.array(["ab"[k % 2] for k in range(20)], pa.string()),
    }
)
HOLES = pa.array([None if k % 3 else k for k in range(20)], pa.int64())


def _stream() -> Stream:
    engine = braid.Engine()
    engine.execute("CREATE STREAM R (n BIGINT, x DOUBLE, who STRING, at BIGINT) TIME at")
    return engine.streams["R"]


def _with(name: str, column: pa.Array) -> pa.Table:
    return READINGS.set_column(READINGS.column_names.index(name), name, column)


def _required() -> pa.Table:
    schema = pa.schema([pa.field(f.name, f.type, nullable=False) for f in READINGS.schema])
    return READINGS.cast(schema)


def _in_pieces() -> pa.Table:
    return pa.concat_tables([READINGS.slice(0, 7), READINGS.slice(7)])


FORMS = {
    "as declared": READINGS,
    "a batch": READINGS.to_batches()[0],
    "in pieces": _in_pieces(),
    "a part of more": pa.concat_tables([READINGS, READINGS]).combine_chunks().slice(0, 20),
    "other order": READINGS.select(["who", "x", "at", "n"]),
    "more columns": READINGS.append_column("more", pa.array(["?"] * 20)),
    "with metadata": READINGS.replace_schema_metadata({"written": "by somebody"}),
    "required": _required(),
    "smaller integers": _with("n", READINGS.column("n").cast(pa.int32())),
    "a dictionary": _with("who", READINGS.column("who").dictionary_encode()),
    "texts of numbers": _with("n", READINGS.column("n").cast(pa.string())),
}


@pytest.mark.parametrize("form", FORMS)
def test_events_do_not_depend_on_the_form_of_data(form: str) -> None:
    ingest = Ingest(_stream())
    wanted = Ingest(_stream())(_in_pieces())
    for data in (READINGS, FORMS[form], READINGS, FORMS[form]):
        found = ingest(data)
        assert found.rejected is None
        assert found.events.schema.equals(wanted.events.schema, check_metadata=True)
        assert found.events.equals(wanted.events)
        assert found.ends is not None
        assert found.ends[1:] == (0, 19, True)


def test_what_does_not_fit_is_refused_after_what_did() -> None:
    ingest = Ingest(_stream())
    ingest(READINGS)
    found = ingest(_with("at", HOLES))
    assert found.rejected is not None
    assert found.events.num_rows == 7
    assert set(found.rejected.column("reason").to_pylist()) == {"time at is NULL"}
    with pytest.raises(ConfigError, match="lack x"):
        ingest(READINGS.drop_columns(["x"]))


@pytest.mark.parametrize(
    "n",
    [HOLES, pa.array(range(40), pa.int64()).slice(20), pa.nulls(20, pa.int64())],
    ids=["NULL here and there", "in the middle of memory", "all NULL"],
)
def test_columns_are_read_where_they_lie(n: pa.Array) -> None:
    """Also if the memory has more, or says that some are NULL."""
    engine = braid.Engine()
    engine.execute(
        "CREATE STREAM R (n BIGINT, x DOUBLE, at BIGINT) TIME at;"
        "CREATE STREAM T (n BIGINT, x DOUBLE, at BIGINT) TIME at"
    )
    engine.query("q", "SELECT * FROM FILTER{x >= 1} R NEXT{$2.x > $1.x} T PUBLISH found")
    data = _with("n", n).drop_columns(["who"])
    found = [engine.process({"R": data, "T": data})["found"], engine.finish()["found"]]
    rows = pa.concat_tables(found).to_pylist()
    wanted = n.to_pylist()
    assert [tuple(row.values())[2:] for row in rows] == [
        (wanted[k], k / 4, wanted[k + 1], (k + 1) / 4) for k in range(4, 19)
    ]


def test_a_stream_that_is_stamped_on_arrival_has_no_times_yet() -> None:
    stream = Stream("R", Schema.of([("n", pa.int64())]), ())
    found = Ingest(stream)(READINGS)
    assert found.events.schema.names == ["n"]
    assert found.ends is None
