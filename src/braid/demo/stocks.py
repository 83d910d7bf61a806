"""A stock stream as files: prices that wander, with dips that recover, the same in every run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "ts TIMESTAMP, Name STRING, Price DOUBLE, Volume BIGINT"
ARROW_SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "Name": pa.string(),
        "Price": pa.float64(),
        "Volume": pa.int64(),
    }
)
#: 2024-01-02 09:30 UTC in microseconds
OPENING = 1_704_187_800_000_000
SYLLABLES = ("AL", "BE", "CO", "DU", "EX", "FI", "GA", "HO", "IN", "JU")


@dataclass(frozen=True)
class Market:
    """How much there is of everything."""

    names: int = 100
    events: int = 200_000
    files: int = 10
    seed: int = 7
    #: Mean time between two quotes of the market.
    step_us: int = 50_000
    #: Quotes arrive up to this much out of order, less than the lateness that the demo declares.
    jitter_us: int = 2_000_000


def names(market: Market) -> list[str]:
    pairs = [a + b for a in SYLLABLES for b in SYLLABLES]
    return pairs[: market.names]


def levels(market: Market) -> dict[str, float]:
    """The price around which each name moves."""
    drawn = np.random.default_rng(market.seed).uniform(20, 200, market.names)
    return dict(zip(names(market), np.round(drawn, 2).tolist(), strict=True))


def batches(market: Market) -> Iterator[pa.Table]:
    """The stream in its files, each a little out of order."""
    random = np.random.default_rng(market.seed + 1)
    level = np.array(list(levels(market).values()))
    codes = random.integers(0, market.names, market.events)
    steps = random.normal(0, 0.006, market.events)
    # Each name's own walk, pulled back to its level: computed name by name over its own quotes.
    price = np.empty(market.events)
    for code in range(market.names):
        rows = np.flatnonzero(codes == code)
        walk = np.empty(len(rows))
        position = 0.0
        for index, step in enumerate(steps[rows].tolist()):
            position = 0.97 * position + step
            walk[index] = position
        price[rows] = level[code] * np.exp(walk)
    time = OPENING + market.step_us * np.arange(market.events, dtype=np.int64)
    arrival = np.argsort(time + random.integers(0, market.jitter_us, market.events), kind="stable")
    texts = pa.array(names(market))
    volume = random.integers(1, 10_000, market.events)
    for rows in np.array_split(arrival, market.files):
        yield pa.table(
            [
                pa.array(time[rows]).cast(ARROW_SCHEMA.field("ts").type),
                texts.take(pa.array(codes[rows])),
                pa.array(np.round(price[rows], 2)),
                pa.array(volume[rows]),
            ],
            schema=ARROW_SCHEMA,
        )


def write(market: Market, directory: Path) -> None:
    """Files that Spark reads one after another: it takes the oldest first, so each has its time."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(batches(market)):
        path = directory / f"quotes-{number:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (OPENING // 1_000_000 + number,) * 2)
