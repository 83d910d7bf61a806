"""Braid on Spark: the pipeline around the engine.

The only room, with the command line, that imports pyspark.
"""

from __future__ import annotations

from braid.spark.environment import local_spark
from braid.spark.running import Progress, Running
from braid.spark.session import Session
from braid.spark.sinks import ConsoleSink, FileSink, FunctionSink, MemorySink, NoopSink, Sink

__all__ = [
    "ConsoleSink",
    "FileSink",
    "FunctionSink",
    "MemorySink",
    "NoopSink",
    "Progress",
    "Running",
    "Session",
    "Sink",
    "local_spark",
]
