"""One run of a pipeline in a process of its own, to be killed: goes on from its checkpoint.

python -m tests.spark.kill_driver FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from braid.spark import FileSink, local_spark
from tests.spark.support import CHAINED, CROSSED, FOLDED, KEYED, SPREAD, WHOLE, Market

QUERIES = {
    "jump": KEYED,
    "crossed": CROSSED,
    "told": CHAINED,
    "rising": FOLDED,
    "whole": WHOLE,
    "high": SPREAD,
}
STREAMS = ("Stock", "News")


def main(folder: str) -> None:
    spark = local_spark(2, "1g")
    spark.sparkContext.setLogLevel("OFF")
    market = Market(spark, Path(folder))
    session = market.session(QUERIES, streams=STREAMS)
    sinks = {
        "matches": FileSink(f"{folder}/out/matches"),
        "Jump": FileSink(f"{folder}/out/jump", "json"),
        "late": FileSink(f"{folder}/out/late"),
    }
    running = session.start(sinks, checkpoint=f"{folder}/checkpoint", trigger="available now")
    running.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
