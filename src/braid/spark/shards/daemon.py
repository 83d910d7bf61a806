"""The process from which Spark forks its Python workers, with Braid already imported.

A worker that imports the engine by itself needs a second or more before its first row, and Spark starts one for every core and again whenever one was idle for a minute.
Forked from here it has them. Kernels themselves are loaded in the worker: which ones depends on
the queries.
"""

from __future__ import annotations

import gc
import os

from pyspark.daemon import manager

#: Spark sets this for functions over rows, and not for state. It has a process such as this for
#: either; only shards need the engine.
OVER_ROWS = "SPARK_SIMPLIFIED_TRACEBACK"


def preload() -> None:
    """Import what a worker of a job needs, but start nothing: threads would not survive the fork."""
    import pyspark.worker  # noqa: F401

    import braid.spark.pipeline.emit
    import braid.spark.pipeline.ingest

    if OVER_ROWS not in os.environ:
        import pandas  # noqa: F401

        import braid.spark.shards.hosting  # noqa: F401
    # A worker collects garbage after every task: a tenth of a second for all that was imported here.
    gc.freeze()


if __name__ == "__main__":
    preload()
    manager()
