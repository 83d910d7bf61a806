"""Linear Road: the four queries of table III, and the stream that they read.

AccSeg, with CurCarSeg in it, is as printed (figure 17). CarExitStr and NegTollStr are reconstructed:
docs/linear_road.md says how, and its statements are these.

The real input is read where it is; where it is not, cars are drawn that drive through the same
expressway, report as those do, and now and then stop.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from benchmarks.data import real_data

Ints = npt.NDArray[np.int64]

STREAM = "CREATE STREAM CarStr (cid BIGINT, xpos BIGINT, sid BIGINT, ts TIMESTAMP) TIME ts;"

CUR_CAR_SEG = """
Select cid, sid From
  (CarStr [Partition By cid Rows 1]) as LastRep,
  (Select distinct cid From
    CarStr [Range 30 seconds]) as CurActiveCars
  Where LastRep.cid = CurActiveCars.cid
"""
ACC_SEG = """
Select distinct sid From
  (Select cid, sid From
    (CarStr [Partition By cid Rows 1]) as LastRep,
    (Select distinct cid From
      CarStr [Range 30 seconds]) as CurActiveCars
    Where LastRep.cid = CurActiveCars.cid)
  as CurCarSeg,
  (Select cid
    From CarStr [Partition By cid Rows 4]
    Group By cid
    Having count (distinct xpos) = 1 and count(*) = 4)
  as AccCars
Where CurCarSeg.cid = AccCars.cid
"""
GONE = "CREATE VIEW GoneStr AS Dstream (Select distinct cid From CarStr [Range 30 seconds]);"
CAR_EXIT_STR = """
Select LastRep.cid, LastRep.sid From
  (CarStr [Partition By cid Rows 1]) as LastRep,
  GoneStr [Now] as Gone
Where LastRep.cid = Gone.cid
"""
TOLLS = f"""
CREATE VIEW CurCarSegs AS{CUR_CAR_SEG.rstrip()};
CREATE VIEW SegEntryStr AS Istream (Select cid, sid From CurCarSegs);
CREATE VIEW SegVol AS Select sid, count(*) as cars From CurCarSegs Group By sid;
CREATE QUERY tolls AS
  Select Entry.cid, Entry.sid,
    CASE WHEN Vol.cars > 50 THEN 2 * (Vol.cars - 50) * (Vol.cars - 50) ELSE 0 END as toll
  From SegEntryStr [Now] as Entry, SegVol as Vol
  Where Entry.sid = Vol.sid
  PUBLISH TollStr;
"""
NEG_TOLL_STR = """
Select LastToll.cid, LastToll.sid, -LastToll.toll as toll From
  (TollStr [Partition By cid Rows 1]) as LastToll,
  GoneStr [Now] as Gone
Where LastToll.cid = Gone.cid
"""
#: The tolls as a stream of their own, where NegTollStr is looked at by itself.
TOLL_STREAM = "CREATE STREAM TollStr (cid BIGINT, sid BIGINT, toll BIGINT, ts TIMESTAMP) TIME ts;"

#: By name: what must be defined before it, and the query.
QUERIES: dict[str, tuple[str, str]] = {
    "CurCarSeg": ("", CUR_CAR_SEG),
    "AccSeg": ("", ACC_SEG),
    "CarExitStr": (GONE, CAR_EXIT_STR),
    "NegTollStr": (f"{GONE}\n{TOLLS.strip()}", NEG_TOLL_STR),
}

#: In feet, and how many segments there are in each direction.
SEGMENT, SEGMENTS = 5_280, 100
#: Between a segment of one direction and the same one of the other: nobody is upstream across it.
APART = 1_000
_SECOND = 1_000_000
_COLUMNS = (
    "type", "time", "car", "speed", "expressway", "lane", "direction", "segment", "position",
    "query", "from", "to", "weekday", "minute", "day",
)  # fmt: skip


def statements(name: str) -> str:
    """All that one query of table III needs."""
    before, query = QUERIES[name]
    return f"{STREAM}\n{before}\nCREATE QUERY {name} AS{query.rstrip()};"


def block(name: str) -> str:
    """The one query by itself: the tolls that NegTollStr reads are a stream."""
    before, query = QUERIES[name]
    before = f"{TOLL_STREAM}\n{GONE}" if name == "NegTollStr" else before
    return f"{STREAM}\n{before}\nCREATE QUERY {name} AS{query.rstrip()};"


@dataclass(frozen=True)
class Reports:
    """Position reports in order of time; `seconds` since the start."""

    cid: Ints
    xpos: Ints
    sid: Ints
    seconds: Ints

    def __len__(self) -> int:
        return len(self.cid)

    def table(self) -> pa.Table:
        """As the stream CarStr is declared."""
        return pa.table(
            {
                "cid": self.cid,
                "xpos": self.xpos,
                "sid": self.sid,
                "ts": pa.array(self.seconds * _SECOND).cast(pa.timestamp("us", "UTC")),
            }
        )

    def until(self, seconds: int) -> Reports:
        end = int(np.searchsorted(self.seconds, seconds))
        return Reports(*(c[:end] for c in (self.cid, self.xpos, self.sid, self.seconds)))

    def batches(self, seconds: int) -> Iterator[dict[str, pa.Table]]:
        """What comes in each so many seconds."""
        table = self.table()
        last = int(self.seconds[-1])
        edges = np.searchsorted(self.seconds, np.arange(0, last + seconds + 1, seconds))
        for first, after in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            yield {"CarStr": table.slice(first, after - first)}


def segment_id(direction: Ints, segment: Ints) -> Ints:
    """Segments of an expressway, numbered in the direction of travel: upstream is smaller."""
    along = np.where(direction == 0, segment, SEGMENTS - 1 - segment)
    return direction * APART + along


def read(path: Path, seconds: int | None = None) -> Reports:
    """The position reports (type 0) of a Linear Road input, compressed or not."""
    wanted = ["type", "time", "car", "expressway", "direction", "segment", "position"]
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as source:
        reader = csv.open_csv(
            source,
            read_options=csv.ReadOptions(column_names=list(_COLUMNS), block_size=1 << 22),
            convert_options=csv.ConvertOptions(include_columns=wanted),
        )
        parts = []
        for batch in reader:
            parts.append(batch)
            if seconds is not None and batch["time"][0].as_py() >= seconds:
                break
    table = pa.Table.from_batches(parts)
    table = table.filter(pc.equal(table["type"], 0))
    columns = {name: table[name].to_numpy().astype(np.int64) for name in wanted}
    order = np.argsort(columns["time"], kind="stable")
    of = {name: values[order] for name, values in columns.items()}
    ways = of["expressway"] * 2 + of["direction"]
    sid = segment_id(of["direction"], of["segment"]) + of["expressway"] * 2 * APART
    found = Reports(of["car"], of["position"] + ways * APART * SEGMENT, sid, of["time"])
    return found if seconds is None else found.until(seconds)


def with_tolls(batches: Sequence[dict[str, pa.Table]]) -> list[dict[str, pa.Table]]:
    """The same batches with the tolls that cars are charged in them, worked out by an engine."""
    import braid

    engine = braid.Engine(instance_budget=50_000_000, idle_timeout=None, constraints="off")
    engine.execute(f"{STREAM}\n{TOLLS}")
    found = [engine.process(batch)["TollStr"] for batch in batches]
    tolls = pa.concat_tables([*found, engine.finish()["TollStr"]])
    return _by_time([batch["CarStr"] for batch in batches], tolls)


def _by_time(cars: Sequence[pa.Table], tolls: pa.Table) -> list[dict[str, pa.Table]]:
    stream = pa.table(
        {name: tolls[name] for name in ("cid", "sid", "toll")} | {"ts": tolls["end"]}
    ).sort_by("ts")
    times = stream["ts"].cast(pa.int64()).to_numpy()
    ends = [int(table["ts"][-1].value) if table.num_rows else -1 for table in cars]
    edges = np.searchsorted(times, np.maximum.accumulate(ends), side="right").tolist()
    return [
        {"CarStr": table, "TollStr": stream.slice(first, last - first)}
        for table, first, last in zip(cars, [0, *edges[:-1]], edges, strict=True)
    ]


@lru_cache(2)
def reports(cars: int, seconds: int, seed: int) -> Reports:
    """The real ones if they are there, else drawn ones, up to a time."""
    path = real_data("linear_road/car.dat.gz")
    return drawn(cars, seconds, seed) if path is None else read(path, seconds)


def drawn(cars: int, seconds: int, seed: int) -> Reports:
    """Cars that enter evenly, drive some miles at a speed of their own, and report each 30 seconds.

    One in two hundred stops for some minutes, and behind it goes on.
    """
    random = np.random.default_rng(seed)
    enters = np.sort(random.integers(0, seconds, cars))
    count = random.integers(4, 40, cars)
    speed = random.uniform(1_500, 3_000, cars)
    begin = random.uniform(0, SEGMENT * SEGMENTS / 2, cars)
    direction = random.integers(0, 2, cars)
    stops = np.where(random.random(cars) < 0.005, random.integers(1, 20, cars), 1_000)
    cid = np.repeat(np.arange(cars), count)
    step = np.arange(len(cid)) - np.repeat(np.cumsum(count) - count, count)
    halted = np.clip(step - stops[cid], 0, 8)
    along = (begin[cid] + speed[cid] * (step - halted)).astype(np.int64)
    at = enters[cid] + 30 * step
    inside = (along < SEGMENT * SEGMENTS) & (at < seconds)
    position = np.where(direction[cid] == 0, along, SEGMENT * SEGMENTS - 1 - along)
    sid = segment_id(direction[cid], position // SEGMENT)
    xpos = position + direction[cid] * APART * SEGMENT
    kept = np.flatnonzero(inside)
    order = kept[np.argsort(at[kept], kind="stable")]
    return Reports(cid[order], xpos[order], sid[order], at[order])
