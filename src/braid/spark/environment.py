"""The environment of Spark: checks Java, the interpreter of the workers, and the settings.

A user should never meet the messages that Spark gives when one of these is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import braid
from braid.errors import ConfigError

OLDEST_JAVA = 17

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: Rows of an Arrow batch between the JVM and Python: large enough that the cost of a batch is
#: small, small enough that a batch fits the processor's caches.
ARROW_ROWS = 100_000


def local_spark(cores: int | str = "*", memory: str = "2g", **conf: Any) -> SparkSession:
    """A Spark session in this process, set up for Braid.

    Settings go by keyword with `_` for `.`: `spark_ui_enabled=True`, or as a dictionary
    `local_spark(2, **{"spark.ui.enabled": "true"})`.
    """
    prepare()
    settings = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() if cores == "*" else cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        # Envelopes go from one task to the next on the same machine: packing them costs a
        # seventh of the throughput and saves no network.
        "spark.shuffle.compress": "false",
        # Workers are forked with the engine in them instead of importing it one by one.
        "spark.python.daemon.module": "braid.spark.shards.daemon",
        **{key.replace("_", "."): _text(value) for key, value in conf.items()},
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("braid")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def prepare() -> None:
    """Check Java, and let workers run the interpreter and the Braid that run this."""
    if SparkSession.getActiveSession() is None:
        check_java()
    # The pinned versions are tested together, so Spark's general warning does not apply.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    home = str(Path(braid.__file__).parents[1])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in known:
        # Where Braid is not installed but found by this process's path.
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, known)])


def check_java() -> None:
    """Check that Spark can use an installed Java; otherwise raise a `ConfigError` with the remedy."""
    hint = (
        f"install a Java runtime of version {OLDEST_JAVA} or newer (for example the package "
        "openjdk-17-jre-headless) and put it on PATH, or set JAVA_HOME to it"
    )
    command = _java_command()
    if command is None:
        raise ConfigError("E401", "Spark needs Java, which is not installed", hint)
    try:
        shown = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        raise ConfigError("E401", f"Java at {command} does not start: {reason}", hint) from None
    version = _java_version(shown.stderr + shown.stdout)
    if version is None:
        raise ConfigError("E401", f"{command} -version does not print its version", hint)
    if version < OLDEST_JAVA:
        raise ConfigError(
            "E402", f"Spark needs Java {OLDEST_JAVA} or newer, {command} is Java {version}", hint
        )


def _java_command() -> str | None:
    """The Java that Spark's launcher takes: that of JAVA_HOME, otherwise the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        command = os.path.join(home, "bin", "java")
        return command if os.access(command, os.X_OK) else None
    return shutil.which("java")


def _java_version(text: str) -> int | None:
    """17 for `openjdk version "17.0.15"`, 8 for `java version "1.8.0_292"`."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major


def shard_labels(shards: int) -> list[int]:
    """One group key per shard such that Spark puts every shard into a partition of its own.

    Spark places a group by the hash of its key modulo the number of partitions; with the keys
    0, 1, 2, ... several shards would fall into one partition and others stay empty. The label of
    shard k falls into partition k.
    """
    labels: dict[int, int] = {}
    candidate = 0
    while len(labels) < shards:
        labels.setdefault(spark_hash(candidate) % shards, candidate)
        candidate += 1
    return [labels[k] for k in range(shards)]


def spark_hash(value: int) -> int:
    """Spark's hash of one INT column (Murmur3, 32 bits, seed 42), as a signed number."""
    mask = 0xFFFFFFFF

    def rotate(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    k = rotate((value & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotate(42 ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
