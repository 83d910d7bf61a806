"""Bitmaps of detections: which bits are set, batch by batch, and in how many bytes."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braid.algebra.detection import code_bits
from braid.operators.detect.bitmaps import Bitmaps
from braid.operators.detect.kernels.synopses import HALF
from braid.operators.detect.spec import Dimension


def made(sizes: list[int]) -> Bitmaps:
    return Bitmaps([Dimension((f"c{n}",), size) for n, size in enumerate(sizes)])


def drawn_cell(data: st.DataObject, sizes: list[int]) -> int:
    cell = 0
    for size in sizes:
        cell = (cell << HALF) | data.draw(st.integers(0, size - 1))
    return cell


@given(st.data())
def test_batches_keep_their_entries(data: st.DataObject) -> None:
    """Whatever comes in a round, ends, leaves, or is saved: each batch has the entries of its events,
    and takes a bit for each entry or fewer."""
    sizes = data.draw(
        st.lists(st.sampled_from([1, 2, 3, 7, 64, 65, 300, 32_768]), min_size=1, max_size=2)
    )
    bitmaps, batches, first, is_open = made(sizes), [], 0, False
    for _ in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 3))):
            new = [drawn_cell(data, sizes) for _ in range(data.draw(st.integers(0, 40)))]
            if is_open:
                batches[-1] += new
            elif new:
                batches.append(new)
            if new:
                bitmaps.add(np.array(new, np.int64))
                is_open = data.draw(st.booleans())
        if is_open and data.draw(st.booleans()):
            is_open = False
        begins = first + np.cumsum([0, *map(len, batches)])
        check(bitmaps, begins, batches)
        bitmaps.pack(begins[:-1], int(begins[-2] if is_open else begins[-1]))
        check(bitmaps, begins, batches)
        gone = data.draw(st.integers(0, len(batches) - is_open))
        first = int(begins[gone])
        bitmaps.forget(begins[:-1], first)
        batches = batches[gone:]
        entries, code = math.prod(sizes), code_bits(sizes)
        bits = sum(min(entries, code * len(batch)) for batch in batches)
        saved = bitmaps.saved()
        assert saved["bits"].nbytes <= 8 * (bits // 64 + 2)
        assert bitmaps.nbytes <= max(64, 8 * (5 * (bits // 64 + 2) // 4))
        if data.draw(st.booleans()):
            bitmaps = made(sizes)
            bitmaps.check(saved, begins[gone:-1], first, int(begins[-1]))
            bitmaps.load(saved, begins[gone:-1])
        check(bitmaps, begins[gone:], batches)


def check(bitmaps: Bitmaps, begins: np.ndarray, batches: list[list[int]]) -> None:
    cells = bitmaps.cells(begins[:-1]).tolist()
    assert len(cells) == sum(map(len, batches))
    for begin, batch in zip((begins - begins[0]).tolist(), batches, strict=False):
        assert set(cells[begin : begin + len(batch)]) == set(batch)


def test_a_full_batch_takes_a_bit_for_each_entry() -> None:
    bitmaps = made([256])
    for batch in range(10):
        bitmaps.add(np.arange(100) * 7 % 256)
        bitmaps.pack(np.arange(batch + 1) * 100, 100 * (batch + 1))
    assert bitmaps.saved()["bits"].nbytes == 10 * 256 // 8
