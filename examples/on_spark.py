"""A Spark session: a stream of files, two queries, all outputs from one pass; then a restart.

python examples/on_spark.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import braid
from braid.spark import FileSink, local_spark

DATA = Path(__file__).parent / "job" / "data"
SCHEMA = "ts TIMESTAMP, Name STRING, Price DOUBLE, Volume BIGINT"

REBOUND = """
SELECT Name, Price_1 AS low, Price AS high
FROM (FILTER{Price < 60}(Stock))
  NEXT{$2.Name = $1.Name AND $2.Price > 1.02 * $1.Price AND DUR <= 1min} Stock
PUBLISH Rebound
"""
STRONG = "SELECT Name, high / low AS gain FROM FILTER{high > 1.04 * low}(Rebound)"


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="braid-"))
    spark = local_spark(2)
    spark.sparkContext.setLogLevel("ERROR")
    session = braid.Session(spark)
    quotes = spark.readStream.schema(SCHEMA).json(str(DATA))
    session.stream("Stock", quotes, time="ts", lateness="10 seconds")
    session.query("rebound", REBOUND)
    session.query("strong", STRONG)

    outputs = {
        "Rebound": FileSink(str(folder / "rebound")),
        "matches": FileSink(str(folder / "matches"), format="json"),
        "late": FileSink(str(folder / "late"), format="json"),
    }
    running = session.start(outputs, checkpoint=folder / "checkpoint", trigger="available now")
    running.await_termination()
    progress = running.progress
    print(f"{progress.events} events, {progress.matches} matches, {progress.late} late")
    spark.read.parquet(str(folder / "rebound")).orderBy("end").show(5)

    # The same checkpoint again: it goes on where it stopped, and there is nothing new.
    running = session.start(outputs, checkpoint=folder / "checkpoint", trigger="available now")
    running.await_termination()
    print(f"after the restart: {running.progress.events} events")
    spark.stop()


if __name__ == "__main__":
    main()
