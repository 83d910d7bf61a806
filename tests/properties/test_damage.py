"""Damaged snapshots are refused with E421: never a crash, never another answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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


def below(seed: int, count: int, at_once: int = 1) -> Counter[str]:
    """Damage below the checksums, in processes that may die of it."""
    each = count // at_once
    assert each * at_once == count
    with ThreadPoolExecutor(at_once) as threads:
        parts = threads.map(lambda k: _below(seed + k * each, each), range(at_once))
        return sum(parts, Counter())


def _below(seed: int, count: int) -> Counter[str]:
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
    found = below(100_000, 20_000, at_once=2)
    assert only_clean(found), found


#: Words that no m-op writes: the kind of query; pages that the m-op has and does not have; the page
#: that is changed, the place in it, and the word there.
SENSELESS = {
    "an event after what has been told": ("joins", "told", "", "told", 0, 5),
    "a row of a relation 2^40 times": ("constraint joins", "loss", "look", "rows0", 3, 1 << 62),
    "a row aside 2^40 times": ("constraint joins", "loss", "look", "aside0", 3, 1 << 62),
    "an event that never came": ("constraint joins", "going3", "", "rows0", 8, 1 << 20),
    "an event that left the window": ("constraint joins", "going3", "", "rows0", 8, 2),
    "events in another order": ("constraint joins", "going3", "", "rows0", 8, 90),
    "a result far from the others": ("constraint joins", "going3", "", "going1", 2, 1 << 29),
}


@pytest.mark.parametrize("what", SENSELESS)
def test_a_word_that_makes_no_sense_is_refused(what: str) -> None:
    kind, has, lacks, name, place, word = SENSELESS[what]
    header, pages = opened(KINDS[kind]().snapshot)
    (mop,) = [
        key.split("/")[1]
        for key in pages
        if key.startswith("mop/")
        and key.endswith(f"/{has}/0")
        and (not lacks or f"{key[: -len(has) - 3]}/{lacks}/0" not in pages)
    ]
    words = np.frombuffer(pages[f"mop/{mop}/{name}/0"], np.int64).copy()
    words[place] = word
    pages[f"mop/{mop}/{name}/0"] = words.tobytes()
    with pytest.raises(CheckpointError, match="E421"):
        braid.Engine.restore(sealed(header, pages))


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
