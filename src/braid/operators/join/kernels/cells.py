"""Cells and their pool as records; `operators/core/kernels/node_sets.py` says what is done with them."""

from __future__ import annotations

from typing import Annotated

from braid.jit.records import Record, Words, i64, record


@record
class Cell(Record):
    """The output nodes that hold a row with one weight."""

    weight: i64
    #: The length of a list of nodes, BITS, or ALL.
    kind: i64
    #: The nodes; if a set has one word, the set itself (see `set_of`).
    set: Words
    #: The next cell of the same row.
    next: Cell


@record
class Pool(Record):
    """The blocks that cells and sets lie in."""

    #: The first free block of each size.
    free: Annotated[Words, 7]
    chunk: Words
    next_word: Words
    left: i64
    #: Words in all, and words in blocks that are in use.
    held: i64
    used: i64
