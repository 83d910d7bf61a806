"""Observes whether a key is unique, from every event of an input.

The rows in memory don't show it: WHERE rejects rows and constraints evict rows, so the first of two
rows of a key is often gone when the second one comes. So the hashes of one key in some are kept here,
whatever happens to the rows, in two sets. The older set is dropped when the newer one is full. Both
together are to reach back for as long as other rows wait for a row of the key (`ObservedKeys.span`). If
they are full earlier, half of the keys are dropped and not observed any more.
"""

from __future__ import annotations

import numpy as np

from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.records import Frame, ObservedKeys, Store
from braid.operators.constraint_join.kernels.store import hash_key, note_duplicate

#: No key has this hash, and no time is as early.
_NONE = np.int64(-1)
_EARLIEST = np.int64(-9223372036854775807)


@kernel()
def _place_of(table: Words, mask: int, hash_: int) -> int:
    """Where a hash is in a set, or where it would be. All hashes have the same lowest bits."""
    place = (hash_ >> 20) & mask
    while table[place] != _NONE and table[place] != hash_:
        place = (place + 1) & mask
    return place


@kernel()
def _clear(table: Words, mask: int) -> None:
    for place in range(mask + 1):
        table[place] = _NONE


@kernel()
def _copy_some(keys: ObservedKeys, table: Words, kept: int) -> int:
    """Copy those keys of a set that are still observed to the spare set; how many are there then."""
    mask, spare = keys.mask, keys.spare
    for place in range(mask + 1):
        hash_ = table[place]
        if hash_ != _NONE and (hash_ & keys.skipped) == 0 and 4 * kept < 3 * mask:
            spare[_place_of(spare, mask, hash_)] = hash_
            kept += 1
    return kept


@kernel()
def _keep_half(keys: ObservedKeys) -> None:
    """Go on with half of the keys: those of them that are in either set become the older set."""
    _clear(keys.spare, keys.mask)
    keys.skipped = 2 * keys.skipped + 1
    _copy_some(keys, keys.newer, _copy_some(keys, keys.older, np.int64(0)))
    keys.older, keys.spare = keys.spare, keys.older


@kernel()
def _turn(keys: ObservedKeys, clock: int) -> None:
    """The newer set is full."""
    since = keys.older_since
    if since == _EARLIEST or clock - since > keys.span:
        keys.older, keys.newer = keys.newer, keys.older
        keys.older_since = keys.since
    else:
        _keep_half(keys)
    keys.since = clock
    _clear(keys.newer, keys.mask)
    keys.count = 0


@kernel()
def _note(keys: ObservedKeys, hash_: int, clock: int) -> bool:
    """Remember a key; whether it was there."""
    if keys.since == _EARLIEST:
        keys.since = clock
    mask, newer, older = keys.mask, keys.newer, keys.older
    if older[_place_of(older, mask, hash_)] == hash_:
        return True
    place = _place_of(newer, mask, hash_)
    if newer[place] == hash_:
        return True
    newer[place] = hash_
    keys.count += 1
    first = keys.since if keys.older_since == _EARLIEST else keys.older_since
    if clock - first > keys.span:
        keys.complete = 1
    if 2 * keys.count > mask:
        _turn(keys, clock)
    return False


@kernel()
def observe_keys(frame: Frame, store: Store, record: Words) -> None:
    """An event has come, whether or not WHERE rejects it: note its keys."""
    first = store.first_index
    for number in range(first, first + store.index_count):
        index = frame.indexes[number]
        keys = index.observed
        if keys.newer.address == 0 or index.duplicates != 0:
            continue
        hash_ = hash_key(record, store.base, index)
        if (hash_ & keys.skipped) != 0:
            continue
        if _note(keys, hash_, frame.now if keys.timed != 0 else store.arrivals):
            note_duplicate(index, store, record)
