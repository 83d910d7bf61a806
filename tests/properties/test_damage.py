"""Damaged snapshots are refused with E421: never a crash, never another answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import braid
from braid.errors import CheckpointError
from tests.engine.snapshot_parts import opened, sealed
from tests.properties.damage import KINDS, damaged_snapshot, outcome

ROOT = Path(__file__).parents[2]


def refused(seed: int, count: int, names: list[str]) -> Counter[str]:
    """What becomes of so many damaged snapshots."""
    subjects = [KINDS[name]() for name in names]
    drawn = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for number in range(count):
        subject = subjects[number % len(subjects)]
        other = subjects[int(drawn.integers(0, len(subjects)))]
        damaged = damaged_snapshot(subject, other, drawn)
        try:
            braid.Engine.restore(damaged)
            found["taken"] += 1
        except CheckpointError as error:
            found[error.code if error.hint else "no hint"] += 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_intact_snapshot_goes_on(kind: str) -> None:
    subject = KINDS[kind]()
    assert outcome(subject, subject.snapshot) == "same"
    assert outcome(subject, sealed(*opened(subject.snapshot))) == "same"


def test_damage_is_refused() -> None:
    assert refused(1, 1_000, list(KINDS)) == {"E421": 1_000}


@pytest.mark.slow
def test_much_damage_is_refused() -> None:
    assert refused(2, 100_000, list(KINDS)) == {"E421": 100_000}


def test_every_single_byte_counts() -> None:
    """Each byte of a snapshot, one after the other."""
    snapshot = KINDS["selection joins"]().snapshot
    for place in range(0, len(snapshot), 3):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(CheckpointError, match="E421"):
            braid.Engine.restore(bytes(damaged))


def below(seed: int, count: int) -> Counter[str]:
    """Damage below the checksums, in a process that may die of it."""
    command = [sys.executable, "-m", "tests.properties.damage", str(seed), str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"died of {last}: {done.returncode}\n{done.stderr[-2000:]}"
    return Counter(json.loads(last[0]))


def only_clean(found: Counter[str]) -> bool:
    """Contents that somebody else wrote with correct checksums may make sense: then the answers
    are others, there may be too many of them for the memory, or the snapshot is of other rules.
    What makes no sense is refused, and nothing ends the process."""
    kinds = {kind.split(":")[0] for kind in found}
    return kinds <= {"E421", "E423", "same", "other", "MemoryError"}


def test_contents_that_make_no_sense_are_refused() -> None:
    found = below(1, 280)
    assert only_clean(found), found
    assert found["E421"] > 0


@pytest.mark.slow
def test_much_that_makes_no_sense_is_refused() -> None:
    found = below(100_000, 20_000)
    assert only_clean(found), found


def test_an_older_snapshot_is_refused_as_such() -> None:
    header, pages = opened(KINDS["documents"]().snapshot)
    header |= {"format": 4, "pages": [[key, len(page)] for key, page in pages.items()]}
    text = json.dumps(header).encode()
    older = b"".join([b"BRAID1\n", len(text).to_bytes(8, "little"), text, *pages.values()])
    with pytest.raises(CheckpointError, match=r"E420.*format 4"):
        braid.Engine.restore(older)
    with pytest.raises(CheckpointError, match="E421"):
        braid.Engine.restore(older[:40])
    header["format"] = 99
    with pytest.raises(CheckpointError, match=r"E420.*format 99"):
        braid.Engine.restore(sealed(header, pages))
