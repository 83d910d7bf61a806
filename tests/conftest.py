"""What all tests share: marks, the flag that rewrites scenarios, how long Hypothesis searches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = Path(__file__).parent / "spark"

# The first run of a predicate shape compiles it, so single examples may be slow.
settings.register_profile(
    "quick",
    max_examples=30,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("few", settings.get_profile("quick"), max_examples=10)
settings.register_profile(
    "thorough",
    settings.get_profile("quick"),
    max_examples=400,
    derandomize=False,
    deadline=timedelta(minutes=5),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate",
        action="store_true",
        help="rewrite the expected output in tests/scenarios from the reference semantics",
    )

    parser.addoption(
        "--record-calls",
        action="store_true",
        help="add the types that these tests call kernels with to src/braid/jit/compiled/calls.txt",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-calls"):
        from braid.jit import runtime
        from braid.jit.compiled import build

        build.record(runtime.calls)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SPARK in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of a process: a JVM takes longer to start than most of them to run."""
    from braid.spark import local_spark

    session = local_spark(2, "1g")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


if os.environ.get("BRAID_TEST_HASHES") == "constant":
    # A lane with the compiler off: the loops then look their helpers up by name.
    # Contents of nodes are mixed as well and must stay different: `nodes` is imported before that.
    from braid.jit import hashing, strings
    from braid.operators.core.kernels import nodes  # noqa: F401
    from braid.operators.select.kernels import access, access_fill, access_match

    hashing.mix = lambda value: np.int64(7)
    for module in (access, access_fill, access_match):
        module.hash_of = lambda *values: np.int64(7)
    strings.hash_bytes = lambda data, start, end: np.int64(7)
