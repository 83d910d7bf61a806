"""The routing hash: stable across versions, computed a column at a time.

It decides where state is, so it is written out here and does not use any library's. Values that
Braid's `=` calls equal have equal hashes: all integer types as 64 bits, floats as doubles with
one zero and one NaN, strings by their UTF-8 bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.algebra.types import Kind, kind_of

#: Bytes of a string that are hashed, besides its length: enough to tell keys apart.
MAX_HASHED_BYTES = 128

_Words = npt.NDArray[np.uint64]


def shard_of(values: pa.Array, shards: int) -> npt.NDArray[np.uint16]:
    """The shard of each value; NULLs go to shard 0."""
    if shards == 1:
        return np.zeros(len(values), np.uint16)
    hashes = hash_values(values)
    # The high bits, scaled: no division, and no use of the weaker low bits.
    shard = ((hashes >> np.uint64(32)) * np.uint64(shards)) >> np.uint64(32)
    found = shard.astype(np.uint16)
    if values.null_count:
        found[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def hash_values(values: pa.Array) -> _Words:
    """64 bits for each value; those of NULLs mean nothing."""
    if pa.types.is_dictionary(values.type):
        return _hash_texts(values)
    match kind_of(values.type):
        case Kind.STRING:
            return _hash_texts(values.dictionary_encode())
        case Kind.FLOAT:
            doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
            doubles = np.where(np.isnan(doubles), np.nan, doubles)
            return mix(np.ascontiguousarray(doubles).view(np.uint64))
        case Kind.DECIMAL:
            # Up to 18 digits fit the low word; both sides of an equality have the same scale.
            words = np.frombuffer(values.buffers()[1], np.uint64)[::2]
            return mix(words[values.offset : values.offset + len(values)])
        case Kind.BOOLEAN | Kind.DATE:
            return _mix_integers(values.cast(pa.int32()).cast(pa.int64()))
        case _:
            return _mix_integers(values.cast(pa.int64()))


def _mix_integers(values: pa.Array) -> _Words:
    return mix(values.fill_null(0).to_numpy().view(np.uint64))


def mix(words: _Words) -> _Words:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of the word."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))


def _hash_texts(values: pa.DictionaryArray) -> _Words:
    known = _hash_strings(values.dictionary.cast(pa.binary()))
    codes = values.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return known[codes] if len(known) else np.zeros(len(values), np.uint64)


def _hash_strings(values: pa.Array) -> _Words:
    """FNV-1a over the first bytes of distinct strings, position by position over all of them."""
    if len(values) == 0:
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[
        values.offset : values.offset + len(values) + 1
    ]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    hashes = lengths.astype(np.uint64) ^ np.uint64(0xCBF29CE484222325)
    longest = min(int(lengths.max()), MAX_HASHED_BYTES)
    active = np.arange(len(values))
    with np.errstate(over="ignore"):
        for position in range(longest):
            active = active[lengths[active] > position]
            byte = data[starts[active] + position].astype(np.uint64)
            hashes[active] = (hashes[active] ^ byte) * np.uint64(0x100000001B3)
    return mix(hashes)
