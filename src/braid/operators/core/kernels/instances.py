"""Names that kernels share, for those that know rows by their addresses (see `jit/rows.py`)."""

from __future__ import annotations

from braid.jit.hashing import canonical_float, mix
from braid.jit.rows import FREE
from braid.jit.runtime import kernel, load_int
from braid.operators.core.kernels.nodes import SET

__all__ = ["FREE", "SET", "any_null", "canonical_float", "is_null", "mix"]


@kernel()
def is_null(row: int, column: int) -> bool:
    return ((load_int(row, 2 + (column >> 6)) >> (column & 63)) & 1) != 0


@kernel()
def any_null(row: int, base: int) -> bool:
    for word in range(2, base):
        if load_int(row, word) != 0:
            return True
    return False
