"""One run of a pipeline that takes changes, in a process of its own, to be killed.

python -m tests.spark.live_driver FOLDER

It goes on from its checkpoint, and ends by itself when the file `finish` is there: all that has
come is run then. If it is lost it ends with 3, as `braid run` does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from braid import Session
from braid.errors import PipelineError
from braid.spark import FileSink, local_spark
from braid.spark.liveness import stop_spark
from tests.spark.support import BOTH, KEYED, Market

NEAR = """SELECT Istream(S.Name, Price, Mood)
          FROM Stock [Range 5 seconds] AS S, News [Range 20 seconds] AS N
          WHERE S.Name = N.About PUBLISH Near"""
QUERIES = {"jump": KEYED, "near": NEAR}


def session_of(market: Market, control: Path) -> Session:
    """The queries that are always there, and changes from files."""
    control.mkdir(exist_ok=True)
    session = market.session(QUERIES, streams=BOTH, idle_timeout=None, stall_timeout="60 seconds")
    schema = "seq BIGINT, op STRING, id STRING, text STRING, at TIMESTAMP"
    session.control(market.spark.readStream.schema(schema).json(str(control)))
    return session


def main(folder: Path) -> int:
    spark = local_spark(2, "1g")
    spark.sparkContext.setLogLevel("OFF")
    session = session_of(Market(spark, folder), folder / "control")
    names = {"matches": "matches", "Jump": "jump", "Near": "near", "rejected": "rejected"}
    sinks = {output: FileSink(f"{folder}/out/{name}") for output, name in names.items()}
    running = session.start(sinks, checkpoint=folder / "checkpoint")
    try:
        while not (folder / "finish").exists():
            running.await_termination(0.5)
        assert running.query is not None
        running.query.processAllAvailable()
        running.stop()
    except PipelineError as failure:
        print(failure.render(), file=sys.stderr, flush=True)
        return 3
    finally:
        stop_spark(spark)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
