"""The harness measures what it says, and the cases run at their small size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks import cases, show
from benchmarks.harness import Figure, Measured, Ratio, _answers_agree, _ratios, run_case
from benchmarks.memory import peak_rss

ON_SPARK = [name for name in cases.names() if name.startswith("spark_")]
IN_PROCESS = [name for name in cases.names() if name not in ON_SPARK]


def rounds(*seconds: float, events: int = 100) -> list[Measured]:
    return [Measured(s, events) for s in seconds]


def test_ratios_pair_rounds_and_take_the_median() -> None:
    measured = {"a": rounds(1, 2, 4), "b": rounds(1, 1, 1)}
    ratios, spread = _ratios((Ratio("a/b", "time", "a", "b"),), measured)
    assert ratios == {"a/b": 2}
    assert spread == {"a/b": (1, 4)}


def test_throughput_counts_events() -> None:
    measured = {"a": rounds(1, events=200), "b": rounds(1, events=100)}
    ratios, _ = _ratios((Ratio("a/b", "throughput", "a", "b"),), measured)
    assert ratios == {"a/b": 2}


def test_ratios_of_what_variants_count() -> None:
    measured = {"a": [Measured(1, 1, extra={"cost": 3})], "b": [Measured(1, 1, extra={"cost": 2})]}
    ratios, _ = _ratios((Ratio("a/b", "cost", "a", "b"), Figure("cost", "b", "cost")), measured)
    assert ratios == {"a/b": 1.5, "cost": 2}


def test_answers() -> None:
    assert _answers_agree([[1, 1], [1], [None]])
    assert not _answers_agree([[1], [2]])
    assert not _answers_agree([[1, 2], [1]]), "rounds of one variant disagree"
    assert not _answers_agree([[1, 1], [None]]), "one variant agrees with nothing"


def test_answers_to_several_questions() -> None:
    assert _answers_agree([[{"x": 1, "y": 2}], [{"x": 1}], [{"z": 3}]])
    assert not _answers_agree([[{"x": 1, "y": 2}], [{"x": 1, "y": 3}]])
    assert not _answers_agree([[{"x": 1}], [{"y": 1}]])


def test_peak_memory_is_counted() -> None:
    assert peak_rss() > 10_000_000


def test_every_case_has_both_sizes() -> None:
    for name in cases.names():
        assert set(cases.find(name).sizes) == {"small", "full"}


def smoke(name: str, folder: Path, *, here: bool = False) -> None:
    result = run_case(cases.find(name), "small", rounds=1, together=True, here=here)
    assert result.answers_agree
    console = Console(record=True, width=160)
    show.show(result, console)
    assert "answers agree" in console.export_text()
    path = show.write(result, folder)
    saved = json.loads(path.read_text("utf-8"))
    assert saved["case"] == name
    assert saved["ratios"].keys() == {ratio.key for ratio in cases.find(name).ratios_at("small")}
    assert path.with_suffix(".png").stat().st_size > 1_000


@pytest.mark.parametrize("name", IN_PROCESS)
def test_case(name: str, tmp_path: Path) -> None:
    """In this process, which has kernels loaded already, unless the case measures fresh ones."""
    smoke(name, tmp_path, here=cases.find(name).once is None)


SLOW = {"spark_documents"}
MARKED = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in ON_SPARK]


@pytest.mark.spark
@pytest.mark.parametrize("name", MARKED)
def test_case_on_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    """In this process, with the Spark of the other tests: it is warm, one of its own is not."""
    assert spark.version
    smoke(name, tmp_path, here=True)
