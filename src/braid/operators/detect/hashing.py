"""The join attributes of events as words that are equal where the values are, and their buckets."""

from __future__ import annotations

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.jit.strings import hash_codes
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.values import Values, Words
from braid.operators.detect.spec import Dimension, Source

_SEED, _STEP = np.uint64(0x243F6A8885A308D3), np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_HALF, _LAST = np.uint64(32), np.uint64(31)
_NOT_A_NUMBER = np.int64(0x7FF8000000000000)


class Hashed:
    """The rows of a source, with what several logs ask of them computed once."""

    def __init__(self, rows: Rows, source: Source, values: Values) -> None:
        self._rows = rows
        self._source = source
        self._values = values
        self._words: dict[str, Words] = {}
        self._buckets: dict[Dimension, Words] = {}

    def kept(self, chosen: Words) -> Words:
        """Which of the chosen rows count."""
        name = self._source.kept
        if name is None:
            return np.arange(len(chosen))
        layout = self._source.shape.layout
        counts = self._rows[chosen, layout.word(name)] != 0
        nulls = nulls_of(self._rows, layout.column(name))
        if nulls is not None:
            counts &= ~nulls[chosen]
        return np.flatnonzero(counts)

    def known(self, name: str) -> np.ndarray:
        """Where a column is not NULL."""
        nulls = nulls_of(self._rows, self._source.shape.layout.column(name))
        return np.ones(len(self._rows), np.bool_) if nulls is None else ~nulls

    def words(self, name: str) -> Words:
        """A column; equal values have equal words."""
        if name not in self._words:
            layout, type_ = self._source.shape.layout, self._source.shape.schema.type_of(name)
            words = np.ascontiguousarray(self._rows[:, layout.word(name)])
            if kind_of(type_) is Kind.FLOAT:
                floats = words.view(np.float64)
                words = np.where(floats == 0, np.int64(0), words)
                words = np.where(np.isnan(floats), _NOT_A_NUMBER, words)
            self._words[name] = words
        return self._words[name]

    def buckets(self, dimension: Dimension) -> Words:
        if dimension not in self._buckets:
            self._buckets[dimension] = self._hash(dimension)
        return self._buckets[dimension]

    def _hash(self, dimension: Dimension) -> Words:
        """As `algebra.detection.bucket_of` defines it, for all rows at once."""
        value = np.full(len(self._rows), _SEED)
        for name in dimension.columns:
            value = (value ^ self._content(name)) + _STEP
            for shift, factor in _FACTORS:
                value = (value ^ (value >> shift)) * factor
            value ^= value >> _LAST
        buckets = ((value >> _HALF) * np.uint64(dimension.buckets)) >> _HALF
        return buckets.astype(np.int64)

    def _content(self, name: str) -> np.ndarray:
        """Words that are the same in every process: of a text those of its bytes."""
        words = self.words(name)
        if kind_of(self._source.shape.schema.type_of(name)) is Kind.STRING:
            strings = self._values.strings
            known = np.where((words >= 0) & (words < strings.count), words, 0)
            words = (
                hash_codes(strings.offsets, strings.pool, known)
                if strings.count
                else np.zeros(len(words), np.int64)
            )
        return words.view(np.uint64)
