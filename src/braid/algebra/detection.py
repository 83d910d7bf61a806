"""The settings of DETECT, hash buckets, and the paths of a join graph.

A detection says for each *batch* of an input whether the join has a result in which an event of
the batch is the newest. It does so from *synopses*: matrices that count the events of an input
by the buckets of its join attributes. All that decides about the numbers in an answer is
defined here, once, so that they are the same in every process and on every split of the input.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from braid.algebra.schema import TICKS, Schema
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING, Kind, kind_of

#: What is published: whose batch it was, the bound on the number of results (NULL for bitmaps),
#: whether an exact join has confirmed that there is one, how full the synopses were.
ANSWER = Schema.of(
    (("input", STRING), ("bound", BIGINT), ("verified", BOOLEAN), ("packing", DOUBLE))
)


@dataclass(frozen=True)
class Part:
    """An attribute of PARTITION BY: what it is called in answers and its type; which attribute of
    each input it is."""

    name: str
    type: pa.DataType
    columns: tuple[str, ...]


def answer_schema(partition: Sequence[Part]) -> Schema:
    """What is published: whose key it is, if there is one, and the answer."""
    keys = ((part.name, part.type) for part in partition)
    return Schema.of((*keys, *((attribute.name, attribute.type) for attribute in ANSWER)))


#: The largest bound: that of a BIGINT.
MOST = 2**63 - 1
#: Later than any event: an event that does not leave its window.
NEVER = 2**63 - 1
#: When a batch that nothing fills is answered, in ticks and in microseconds (the end of 9999).
END_OF_TICKS = 2**62 - 1
END_OF_TIME = 253_402_300_799_999_999

DEFAULT_BUCKETS = 256
#: The entry of a matrix is numbered by 31 bits.
MOST_BUCKETS = 32_768
DEFAULT_PACKING = 0.6


@dataclass(frozen=True)
class Settings:
    """How a detection is to be answered.

    `labels`: what the inputs are called. `batch`: how many events make a batch; `within`: after
    what time it ends even so (None: never). `buckets`: how many each pair of inputs has that WHERE
    relates, in the order in which it does. `counts`: synopses count events; otherwise they are
    bitmaps. `packing`: above which density of the synopses an answer is verified; below 0 means
    always and None never. `memory`: how many bytes it may hold between batches, windows included;
    one that needs more is suspended (None: as many as it needs).
    """

    labels: tuple[str, ...]
    batch: int = 1
    within: int | None = None
    buckets: tuple[int, ...] = ()
    counts: bool = True
    packing: float | None = DEFAULT_PACKING
    memory: int | None = None

    def __post_init__(self) -> None:
        assert self.batch >= 1
        assert self.within is None or self.within >= 0
        assert all(1 <= number <= MOST_BUCKETS for number in self.buckets)

    @property
    def may_verify(self) -> bool:
        return self.packing is not None

    def deadline(self, first: int, unit: str) -> int:
        """When a batch that begins at this instant ends if nothing fills it."""
        if self.within is not None:
            return min(first + self.within, NEVER)
        return max(first, END_OF_TICKS if unit == TICKS else END_OF_TIME)


# ---- the join graph and its paths ----------------------------------------------------------------


@dataclass(frozen=True)
class Path:
    """Inputs one after the other, each related to the next; `edges[k]` is between `inputs[k]`
    and `inputs[k + 1]`."""

    inputs: tuple[int, ...]
    edges: tuple[int, ...]

    def around(self, position: int) -> tuple[int, ...]:
        """The edges of the input at a position: one at the ends, else two."""
        before = self.edges[position - 1 : position] if position else ()
        return (*before, *self.edges[position : position + 1])


def paths_of(count: int, edges: Sequence[tuple[int, int]]) -> tuple[Path, ...]:
    """Paths that have every edge of a connected graph once: the longest first, then the longest of
    what is left. A path query is one path; anything else is the conjunction of several."""
    left = dict(enumerate(edges))
    found = []
    while left:
        longest = _longest(count, left)
        found.append(longest)
        for edge in longest.edges:
            del left[edge]
    return tuple(found)


#: How many steps the search for a longest path may take, so that a dense graph ends too.
_STEPS = 20_000


def _longest(count: int, edges: dict[int, tuple[int, int]]) -> Path:
    best: list[Path] = [Path((), ())]
    steps = [0]

    def extend(inputs: tuple[int, ...], used: tuple[int, ...]) -> None:
        steps[0] += 1
        if len(used) > len(best[0].edges):
            best[0] = Path(inputs, used)
        for edge, (first, second) in edges.items():
            if inputs[-1] not in (first, second) or steps[0] > _STEPS:
                continue
            other = second if inputs[-1] == first else first
            if other not in inputs:
                extend((*inputs, other), (*used, edge))

    for start in range(count):
        extend((start,), ())
    return best[0]


# ---- buckets -------------------------------------------------------------------------------------

_WORD = 2**64 - 1
_SEED, _STEP = 0x243F6A8885A308D3, 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def word_of(value: Any, type_: pa.DataType) -> int:
    """A value that is not NULL as 64 bits: equal values have equal ones."""
    match kind_of(type_):
        case Kind.STRING:
            return _text_hash(value)
        case Kind.FLOAT:
            number = math.nan if math.isnan(value) else float(value) + 0.0
            return int(struct.unpack("<Q", struct.pack("<d", number))[0])
        case Kind.DECIMAL:
            return int(Decimal(value).scaleb(type_.scale)) & _WORD
    return int(value) & _WORD


def bucket_of(words: Sequence[int], buckets: int) -> int:
    """The bucket of one value, or of several that are compared together."""
    value = _SEED
    for word in words:
        value = (value ^ word) & _WORD
        value = (value + _STEP) & _WORD
        for shift, factor in ((30, _MIX[0]), (27, _MIX[1])):
            value = ((value ^ (value >> shift)) * factor) & _WORD
        value ^= value >> 31
    return ((value >> 32) * buckets) >> 32


def _text_hash(text: str) -> int:
    """FNV-1a of the bytes with a final mix, as `jit/strings.py` has it."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & _WORD
    value ^= value >> 32
    value = (value * 0xD6E8FEB86659FD93) & _WORD
    value ^= value >> 32
    return value | 1


# ---- memory --------------------------------------------------------------------------------------


def entries(edges: Sequence[int], buckets: Sequence[int], same: bool) -> int:
    """How many entries a synopsis by these edges has. `same`: they ask the same attributes, so that
    one bucket says it all if they have equally many."""
    sizes = [buckets[edge] for edge in edges]
    return sizes[0] if same and len(set(sizes)) == 1 else math.prod(sizes)


def code_bits(sizes: Sequence[int]) -> int:
    """The bits that number an entry of a synopsis with so many buckets on each side."""
    return sum((size - 1).bit_length() for size in sizes)


def matrix_bytes(count: int, counts: bool) -> int:
    """What a synopsis takes as a matrix: a word for each count, a bit for each flag."""
    return 8 * count if counts else 8 * ((count + 63) // 64)
