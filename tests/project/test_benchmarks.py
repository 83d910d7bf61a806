"""The harness measures what it says, and the cases run at their small size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import cases, show
from benchmarks.harness import Case, Measured, Ratio, _answers_agree, _ratios, run_case
from benchmarks.memory import peak_rss


def rounds(*seconds: float, events: int = 100) -> list[Measured]:
    return [Measured(s, events) for s in seconds]


def case_of(*ratios: Ratio) -> Case:
    return Case("x", "", {}, {}, ratios)


def test_ratios_pair_rounds_and_take_the_median() -> None:
    measured = {"a": rounds(1, 2, 4), "b": rounds(1, 1, 1)}
    ratios, spread = _ratios(case_of(Ratio("a/b", "time", "a", "b")), measured)
    assert ratios == {"a/b": 2}
    assert spread == {"a/b": (1, 4)}


def test_throughput_counts_events() -> None:
    measured = {"a": rounds(1, events=200), "b": rounds(1, events=100)}
    ratios, _ = _ratios(case_of(Ratio("a/b", "throughput", "a", "b")), measured)
    assert ratios == {"a/b": 2}


def test_answers() -> None:
    assert _answers_agree([1, 1, None])
    assert not _answers_agree([1, 2])
    assert not _answers_agree([1]), "one answer agrees with nothing"


def test_peak_memory_is_counted() -> None:
    assert peak_rss() > 10_000_000


def test_every_case_has_both_sizes() -> None:
    for name in cases.names():
        assert set(cases.find(name).sizes) == {"small", "full"}


def smoke(name: str, folder: Path) -> None:
    result = run_case(cases.find(name), "small", rounds=1)
    assert result.answers_agree
    console = Console(record=True, width=160)
    show.show(result, console)
    assert "answers agree" in console.export_text()
    path = show.write(result, folder)
    saved = json.loads(path.read_text("utf-8"))
    assert saved["case"] == name
    assert saved["ratios"].keys() == {ratio.key for ratio in cases.find(name).ratios}
    assert path.with_suffix(".png").stat().st_size > 1_000


def test_pattern_kernel(tmp_path: Path) -> None:
    smoke("pattern_kernel", tmp_path)


@pytest.mark.spark
def test_spark_pattern(tmp_path: Path) -> None:
    smoke("spark_pattern", tmp_path)
