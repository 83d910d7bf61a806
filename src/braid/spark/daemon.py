"""The process from which Spark forks its Python workers, with Braid already imported.

A worker that imports the engine and the compiler of the kernels by itself needs seconds before
its first row, and Spark starts one for every core and again whenever one was idle for a minute.
Forked from here it has them. Kernels themselves are loaded in the worker: which ones depends on
the queries.
"""

from __future__ import annotations

from pyspark.daemon import manager


def preload() -> None:
    """Import what a worker of a job needs, but start nothing: threads would not survive the fork."""
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401

    import braid.spark.emit
    import braid.spark.hosting
    import braid.spark.ingest
    import braid.spark.stateless  # noqa: F401


if __name__ == "__main__":
    preload()
    manager()
