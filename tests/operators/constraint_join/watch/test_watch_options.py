"""How joins find constraints out may be said: margin, sample, window, threshold, worth, loss."""

from __future__ import annotations

from typing import Any

import pytest

import braid
from braid.algebra.constraints import Watching
from braid.engine.constraints import watching
from braid.errors import ConfigError


def test_nothing_said_is_what_the_article_has() -> None:
    assert watching(None) == Watching() == watching({})
    assert watching({"margin": 2, "window": None}) == Watching(margin=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"margin": 0.5}, "margin = 0.5 is not a number of at least 1"),
        ({"sample": 1.5}, "sample = 1.5 is not a number from 0 to 1"),
        ({"sample": None}, "sample = None is not a number from 0 to 1"),
        ({"window": 5}, "window = 5 is not a whole number of at least 10"),
        ({"window": 20.5}, "window = 20.5 is not a whole number"),
        ({"threshold": 0}, "threshold = 0 is not a number above 0"),
        ({"worth": -1}, "worth = -1 is not a number of at least 0"),
        ({"worth": True}, "worth = True is not a number of at least 0"),
        ({"loss": 1.5}, "loss = 1.5 is not a number from 0 to 1"),
        ({"loss": None}, "loss = None is not a number from 0 to 1"),
        ({"speed": 1}, "watching has no setting 'speed'"),
        (7, "watching=7 is not a mapping"),
    ],
)
def test_what_cannot_be(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match="E318") as caught:
        braid.Engine(watching=given)
    assert said in str(caught.value)


def test_a_snapshot_remembers_it() -> None:
    engine = braid.Engine(
        constraints="monitored", watching={"window": 100, "sample": 0.0, "loss": 0.2}
    )
    again = braid.Engine.restore(engine.snapshot())
    assert again.options.watching == Watching(window=100, sample=0.0, loss=0.2)


def test_a_smaller_window_finds_a_constraint_sooner() -> None:
    """With W = 50, a k is known after 50 events of the stream, not after 500."""
    known = []
    for window in (50, 500):
        engine = braid.Engine(constraints="monitored", watching={"window": window, "worth": 0})
        engine.execute("""
            CREATE STREAM P (a BIGINT, t BIGINT) TIME t;
            CREATE STREAM C (a BIGINT, t BIGINT) TIME t;
        """)
        engine.query("q", "Istream(Select P.a From P [Range 9000], C [Range 9000] Where P.a = C.a)")
        ids = list(range(1200))
        engine.process({"P": {"a": ids, "t": ids}, "C": {"a": ids, "t": ids}})
        engine.finish()
        (join,) = (m for m in engine.explain().to_dict()["mops"] if "constraint" in m["does"])
        found = join["detail"]["constraints"]
        known.append(sum(c["rows"] for c in found) + join["detail"]["inputs"][0]["evicted"])
    assert known[0] > 0
    assert known[0] >= known[1]
