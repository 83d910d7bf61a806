"""The constants of members as words, as keys, and as content that has no codes in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.expressions import Literal, Parameter
from braid.algebra.types import Kind, kind_of
from braid.jit.runtime import float_word, kernel
from braid.jit.strings import hash_codes, hash_strings, mix_codes
from braid.operators.core.columns import words_of
from braid.operators.core.kernels.clauses import float_key
from braid.operators.core.values import Values, Words, string_buffers
from braid.plan.predicates import FLOAT, NUMBER_AS_FLOAT, Constant


@kernel()
def float_keys(words: np.ndarray) -> np.ndarray:
    out = np.empty(words.shape[0], np.int64)
    for k in range(words.shape[0]):
        out[k] = float_key(words[k])
    return out


class Constants:
    """The constants of some members of one template; a literal's array has a single word."""

    def __init__(self, ids: pa.Array, columns: Sequence[pa.Array], values: Values) -> None:
        self.count = len(ids)
        self._ids = ids
        self._columns = columns
        self._values = values
        self._words: dict[int, Words] = {}
        #: Keys of floats, which are asked for as often as their atom is looked at.
        self._float_keys: dict[int, Words] = {}

    def chosen(self, rows: Words) -> Constants:
        """The constants of some of the members."""
        if len(rows) == self.count:
            return self
        which = pa.array(rows, pa.int64())
        columns = [column.take(which) for column in self._columns]
        return Constants(self._ids.take(which), columns, self._values)

    @property
    def ids(self) -> pa.Array:
        """What the members are called."""
        return self._ids

    @property
    def identity(self) -> Words:
        """A word that tells the members apart, the same in every process."""
        offsets, data = string_buffers(self._ids)
        return hash_strings(offsets, data)

    def words(self, constant: Constant) -> Words:
        if isinstance(constant, Parameter):
            known = self._words.get(constant.index)
            if known is None:
                array = self._columns[constant.index]
                if isinstance(array, pa.ChunkedArray):
                    array = array.combine_chunks()
                words = words_of(array, constant.type, self._values)
                known = self._words[constant.index] = self._kept(words, constant.type)
            return known
        return self._kept(np.array([_word(constant, self._values)], np.int64), constant.type)

    def _kept(self, words: Words, type_: pa.DataType) -> Words:
        if kind_of(type_) is Kind.STRING:
            self._values.strings.hold(words)
        # What belongs to Arrow cannot be written to, and is another type to the compiler.
        return words if words.flags.writeable else words.copy()

    def content(self, constant: Constant) -> list[Words]:
        """Words that are the same in every process: the constant itself, or 128 bits of a text."""
        words = self.words(constant)
        if kind_of(constant.type) is Kind.STRING:
            strings = self._values.strings
            return [
                hash_codes(strings.offsets, strings.pool, words),
                mix_codes(strings.offsets, strings.pool, words),
            ]
        return [words]

    def keys(self, constant: Constant, mode: str) -> Words:
        if mode not in (FLOAT, NUMBER_AS_FLOAT):
            return self.words(constant)
        if not isinstance(constant, Parameter):
            return float_keys(self.words(constant))
        keys = self._float_keys.get(constant.index)
        if keys is None:
            keys = self._float_keys[constant.index] = float_keys(self.words(constant))
        return keys


def _word(literal: Literal, values: Values) -> int:
    value: Any = literal.value
    match kind_of(literal.type):
        case Kind.FLOAT:
            return float_word(float(value))
        case Kind.STRING:
            return int(values.strings.codes(pa.array([value], pa.string()))[0])
        case Kind.DECIMAL:
            return int(value.scaleb(literal.type.scale))
    return int(value)
