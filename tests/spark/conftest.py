"""One Spark for all of these tests: a JVM takes longer to start than most of them to run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from braid.spark import local_spark
from tests.spark.support import Market


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_spark(2, "1g")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def market(spark: SparkSession, tmp_path: Path) -> Market:
    return Market(spark, tmp_path)
