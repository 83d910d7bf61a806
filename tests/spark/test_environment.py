"""What has to be right before Spark starts, and what must agree with Spark's own code."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from braid import ConfigError
from braid.spark.environment import check_java, shard_labels, spark_hash


def fake_java(folder: Path, banner: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "java"
    command.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"E401.*is not installed\n.*version 17"):
        check_java()


def test_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match="E401"):
        check_java()


@pytest.mark.parametrize(
    ("banner", "version"),
    [('java version "1.8.0_292"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)],
)
def test_java_that_is_too_old(monkeypatch, tmp_path, banner: str, version: int) -> None:
    fake_java(tmp_path / "bin", banner)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=f"E402.*is Java {version}\n"):
        check_java()


@pytest.mark.parametrize("banner", ['openjdk version "17.0.15"', 'openjdk version "21" 2023-09-19'])
def test_java_that_is_new_enough(monkeypatch, tmp_path, banner: str) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    fake_java(tmp_path, banner)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    check_java()


def test_a_session_without_java_fails_before_spark_is_tried(tmp_path: Path) -> None:
    """In a process of its own: here a JVM is running already."""
    code = "import braid\ntry: braid.Session()\nexcept braid.ConfigError as e: print(e.code)"
    environment = {
        **os.environ,
        "JAVA_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["E401"]


def test_workers_are_forked_with_the_engine_in_them(spark) -> None:
    def imported(_: Iterator[Any]) -> Iterator[bool]:
        yield "braid.engine.shard" in sys.modules

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(imported).collect() == [True]


def test_labels_put_every_shard_into_a_partition_of_its_own(spark) -> None:
    """With Spark's own hash, the one that it groups by."""
    for shards in (1, 2, 3, 8, 50):
        labels = shard_labels(shards)
        frame = spark.createDataFrame([(label,) for label in labels], "shard int")
        rows = frame.select("shard", F.hash("shard"), F.expr(f"pmod(hash(shard), {shards})"))
        found = rows.collect()
        assert [row[2] for row in found] == list(range(shards))
        assert [row[1] for row in found] == [spark_hash(label) for label in labels]
