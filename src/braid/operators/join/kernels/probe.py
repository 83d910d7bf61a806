"""Probes of a join: by the hash of what must be equal, or of the stretches that a band touches."""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_float, load_int, store_int
from braid.operators.core.kernels.instances import FREE
from braid.operators.join.kernels.frame import (
    AT_BASE,
    AT_BUCKET,
    AT_CELL,
    AT_HASH,
    AT_LAST,
    AT_SLOT,
    BOUND_AT,
    INDEXES_AT,
    STEP_BAND,
    STEP_INDEX,
    STEP_SOURCES,
    STORES_AT,
)
from braid.operators.join.kernels.store import (
    BAND,
    BASE,
    COLUMNS_AT,
    HEADS_AT,
    IN_BAND,
    INDEX_WORDS,
    KEYS,
    MASK,
    PROBES,
    STORE_WORDS,
    add_bucket,
    add_to_hash,
    bucket_of,
    float_bucket_of,
    same_value,
    within,
)

#: How much floats are rounded, at most.
_ROUNDING = 2.0**-50
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@kernel()
def _look_up(index: int, level: int, value: int) -> None:
    """Begin with the chain of a hash."""
    value &= FREE
    bucket = value & load_int(index, MASK)
    store_int(level, AT_HASH, value)
    store_int(level, AT_SLOT, load_int(load_int(index, HEADS_AT), bucket))


@kernel()
def _added(value: int, change: int) -> int:
    """A sum, or the integer that is next to it."""
    if change > 0:
        return value + change if value <= _GREATEST - change else np.int64(_GREATEST)
    return value + change if value >= _LEAST - change else np.int64(_LEAST)


@kernel()
def _begin_band(level: int, index: int, at: int, around: int, how: int) -> None:
    """The stretches that a band around a value touches. Floats were or will be rounded where the
    residual is asked, so their band is a little wider."""
    if how == IN_BAND:
        value, below, above = load_int(at, 0), load_int(around, 0), load_int(around, 1)
        width = load_int(index, BAND)
        store_int(level, AT_BUCKET, within(bucket_of(_added(value, -below), width), index))
        store_int(level, AT_LAST, within(bucket_of(_added(value, above), width), index))
        return
    point, under, over = load_float(at, 0), load_float(around, 0), load_float(around, 1)
    lowest_, highest, wide = point, point, load_float(index, BAND)
    if abs(point) < np.inf:
        slack = (abs(point) + _finite(under) + _finite(over)) * _ROUNDING
        lowest_, highest = point - under - slack, point + over + slack
    # A side without a bound; NaN is above all others.
    lowest_ = -np.inf if under == np.inf else lowest_
    highest = np.nan if over == np.inf else highest
    store_int(level, AT_BUCKET, within(float_bucket_of(lowest_, wide), index))
    store_int(level, AT_LAST, within(float_bucket_of(highest, wide), index))


@kernel()
def _finite(width: float) -> float:
    return 0.0 if width == np.inf else abs(width)


@kernel()
def next_chain(index: int, level: int) -> bool:
    """Go on with the next stretch of a band; whether there is one."""
    bucket = load_int(level, AT_BUCKET) + 1
    if bucket > load_int(level, AT_LAST):
        return False
    store_int(level, AT_BUCKET, bucket)
    _look_up(index, level, add_bucket(load_int(level, AT_BASE), bucket))
    return True


@kernel()
def begin(frame: int, step: int, level: int) -> None:
    """Look for the first row of a probe."""
    index = load_int(frame, INDEXES_AT) + load_int(step, STEP_INDEX) * (8 * INDEX_WORDS)
    bound, stores = load_int(frame, BOUND_AT), load_int(frame, STORES_AT)
    source, columns = load_int(step, STEP_SOURCES), load_int(index, COLUMNS_AT)
    value = np.int64(0)
    store_int(level, AT_CELL, 0)
    store_int(level, AT_BUCKET, 0)
    store_int(level, AT_LAST, 0)
    store_int(index, PROBES, load_int(index, PROBES) + 1)
    for k in range(load_int(index, KEYS)):
        i = load_int(source, 2 * k)
        row, base = load_int(bound, i), load_int(stores + i * (8 * STORE_WORDS), BASE)
        column, how = load_int(source, 2 * k + 1), load_int(columns, 2 * k + 1)
        if how >= IN_BAND:
            # It is the last of the keys.
            _begin_band(level, index, row + 8 * (base + column), load_int(step, STEP_BAND), how)
            store_int(level, AT_BASE, value)
            value = add_bucket(value, load_int(level, AT_BUCKET))
        else:
            value = add_to_hash(value, row, base, column, how)
    _look_up(index, level, value)


@kernel()
def same_keys(frame: int, step: int, index: int, row: int, base: int) -> bool:
    bound, stores = load_int(frame, BOUND_AT), load_int(frame, STORES_AT)
    source, columns = load_int(step, STEP_SOURCES), load_int(index, COLUMNS_AT)
    for k in range(load_int(index, KEYS)):
        if load_int(columns, 2 * k + 1) >= IN_BAND:
            return True
        i = load_int(source, 2 * k)
        if not same_value(
            row,
            base,
            load_int(columns, 2 * k),
            load_int(bound, i),
            load_int(stores + i * (8 * STORE_WORDS), BASE),
            load_int(source, 2 * k + 1),
            load_int(columns, 2 * k + 1),
        ):
            return False
    return True
