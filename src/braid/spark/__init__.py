"""Braid on Spark: the pipeline around the engine.

Besides the command line, only this package imports pyspark. Names are loaded on first use, because
Spark's workers import parts of the package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braid.spark.environment import local_spark
    from braid.spark.liveness import stop_spark
    from braid.spark.running import Progress, Running
    from braid.spark.session import Session
    from braid.spark.sinks import ConsoleSink, FileSink, FunctionSink, MemorySink, NoopSink, Sink

_LAZY = {
    "ConsoleSink": "braid.spark.sinks",
    "FileSink": "braid.spark.sinks",
    "FunctionSink": "braid.spark.sinks",
    "MemorySink": "braid.spark.sinks",
    "NoopSink": "braid.spark.sinks",
    "Progress": "braid.spark.running",
    "Running": "braid.spark.running",
    "Session": "braid.spark.session",
    "Sink": "braid.spark.sinks",
    "local_spark": "braid.spark.environment",
    "stop_spark": "braid.spark.liveness",
}

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
    "stop_spark",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'braid.spark' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
