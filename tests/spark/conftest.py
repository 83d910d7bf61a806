"""What tests on Spark share besides the one Spark itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support import Market


@pytest.fixture
def market(spark: SparkSession, tmp_path: Path) -> Market:
    return Market(spark, tmp_path)
