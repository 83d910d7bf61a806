"""How a row leaves memory before it leaves its window: put aside, or dropped but for a sample."""

from __future__ import annotations

from braid.kernels.instances import mix
from braid.kernels.k_aside import set_aside
from braid.kernels.k_frame import INDEXES_AT, KNOWN_AT, SAMPLES, SPILLS
from braid.kernels.k_store import (
    EVICTED,
    FLAGS,
    NUMBER,
    SAMPLED,
    WIDTH,
    remove_row,
    slot_at,
    weight_of,
)
from braid.kernels.runtime import kernel, load_int, store_int


@kernel()
def is_sampled(frame: int, store: int, record: int) -> bool:
    number = load_int(record, load_int(store, WIDTH) + NUMBER)
    return (mix(number) & 1023) < load_int(frame, SAMPLES)


@kernel()
def leave(frame: int, store: int, record: int) -> bool:
    """Put a record aside, or drop it; False if it is sampled and stays."""
    if load_int(frame, SPILLS) != 0:
        set_aside(load_int(frame, INDEXES_AT), store, record, load_int(frame, KNOWN_AT))
        return True
    flags = load_int(store, WIDTH) + FLAGS
    if is_sampled(frame, store, record):
        store_int(record, flags, load_int(record, flags) | SAMPLED)
        return False
    store_int(store, EVICTED, load_int(store, EVICTED) + 1)
    return True


@kernel()
def evict(frame: int, store: int, slot: int) -> bool:
    row = slot_at(store, slot)
    if (load_int(row, load_int(store, WIDTH) + FLAGS) & SAMPLED) != 0 or weight_of(store, row) < 0:
        return False
    if not leave(frame, store, row):
        return False
    remove_row(load_int(frame, INDEXES_AT), store, slot)
    return True
