"""Thousands of wrong texts: each is bound, or refused with a code and a place, and never for long."""

from __future__ import annotations

import random
import time

import pytest

from tests.lang import mutants

#: CPU seconds for a text and for each of its characters: a hang, not a speed.
HANG, EACH = 20.0, 0.001


def run(seed: int, count: int) -> None:
    dice = random.Random(seed)
    texts, known = mutants.texts(), mutants.catalog()
    for _ in range(count):
        text = mutants.mutant(dice, texts)
        began = time.process_time()
        wrong = mutants.wrong_with(text, known)
        assert wrong is None, f"{wrong}\n{text!r}"
        assert time.process_time() - began < HANG + EACH * len(text), text


@pytest.mark.parametrize("seed", range(4))
def test_mutants(seed: int) -> None:
    run(seed, 1_500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_mutants(seed: int) -> None:
    run(seed, 5_000)


def test_there_are_texts_of_every_kind() -> None:
    joined = "\n".join(mutants.texts())
    assert len(mutants.texts()) > 100
    known = mutants.catalog()
    assert sum(mutants.bound(text, known) for text in mutants.texts()) > 30
    for word in ("FOLD", "DETECT", "FOLLOWED BY", "Istream", "CREATE CONSTRAINT", "FOR EACH"):
        assert word in joined
