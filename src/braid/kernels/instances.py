"""Instances of patterns: rows in slots, chained by hash, each with the members that it is of.

A slot is a row of words (start, end, masks of NULLs, columns), then a word with the next slot of
its chain and its hash, and a word with its *group* and its members. A group is what all members of an instance
agree on: the tests of the second event and the constants of the compiled expressions. Members
are nodes of the first input, as one number or as a list in an arena.
"""

from __future__ import annotations

import numpy as np

from braid.kernels.clauses import atom_holds
from braid.kernels.keys import key_of
from braid.kernels.memory import release, resized
from braid.kernels.runtime import kernel, load_half, load_int, store_half, store_int

#: The `end` that marks a free slot. No event can have it: ingest rejects it.
FREE = np.int64(9223372036854775807)
_NAN = np.int64(0x7FF8000000000000)
_NEGATIVE_ZERO = np.int64(-9223372036854775808)

#: Words that a slot has beyond the instance's row.
EXTRA = 2

#: The frame of a step: what does not change while it runs, as words behind one address.
#: `*_BASE` is the word of the first column of a row; GROUP is a word of a slot, LINK and HASH are
#: halves of one.
(
    INSTANCE_KEYS,
    EVENT_KEYS,
    FLOAT_KEYS,
    KEYS,
    BIND,
    COLUMNS,
    EMIT,
    EMITTED,
    INSTANCE_BASE,
    EVENT_BASE,
    FIRST_BASE,
    OUT_BASE,
    LINK,
    HASH,
    GROUP,
    ITERATES,
    RESIDUAL,
    CHANNELS,
    FIRST_HEADS,
    SET_HEADS,
    STATES,
    EDGES,
    GROUPS,
    POOL,
    SETS,
    PARAMETERS,
    CLASSES,
    CLASS_COUNT,
    STRINGS,
    STATE_COUNT,
    BUDGET,
    ALIASES,
    ALIAS_COUNT,
    FRAME,
) = range(34)

#: A state: next state of the same first node, group, bound (-1: none, DEAD: gone), first edge,
#: the output node that everything goes on to; -1 is none. Of a state with a single edge that
#: begins with an interval: that test and its ends, so that most composites need not look at the
#: edge, and if the edge asks for nothing else its output node + 1 in the upper half of the test.
#: NO_TEST: there is none; INDEXED: there is none, and an index has more edges. A state fills a
#: line of the cache.
STATE_WORDS = 8
S_NEXT, S_GROUP, S_BOUND, S_EDGE, S_OUT, S_TEST, S_LOW, S_HIGH = range(STATE_WORDS)
DEAD = -2
NO_TEST, INDEXED = -1, -2

#: A first node with this bit is a set of nodes that an event belongs to all at once.
SET = np.int64(0x40000000)

#: The head of a first node: its first state, and the group of it if it is the only one (or
#: SEVERAL): most nodes have one, and an event that starts with them need not look further.
SEVERAL = np.int64(0x7FFFFFFF)
NO_STATE = np.int64(-1)

#: An edge: next of the same state, output node, number of atoms, where they are, the first atom,
#: and where the parameters of its compiled part are (-1: it has none).
EDGE_WORDS = 8
E_NEXT, E_OUT, E_ATOMS, E_AT, E_TEST, E_LOW, E_HIGH, E_PARAMETERS = range(8)

#: A group: class, number of atoms and where they are, where its parameters are, longest bound
#: (-1: none), stamp and slot of the instance being made, the values of its static keys.
GROUP_WORDS = 10
G_CLASS, G_ATOMS, G_AT, G_PARAMETERS, G_BOUND, G_STAMP, G_SLOT, G_KEY = range(8)

#: A class: how many static keys, column and mode of each (column << 8 | mode), live instances.
CLASS_WORDS = 4
C_KEYS, C_COLUMN, C_LIVE = 0, 1, 3

#: Chains that a step begins with: a power of two.
LEAST_HEADS = 16

#: Cells of the arena that are not worth a compaction.
LEAST_ARENA = 65_536

#: An atom in the pool: kind | mode << 8 | column << 16, then lo and hi.
ATOM_WORDS = 3

#: The slots of a step: live instances, slots ever used, first free one, live ones after the last
#: sweep, where rows are and for how many there is room, where the heads of the chains are and
#: their number less one; the arena of member lists, what is used of it, its size, when to
#: compact it; the last stamp; members since the last check of budgets, and how many may come.
(
    COUNT,
    HIGH,
    FREE_HEAD,
    SWEPT,
    ROWS_AT,
    CAPACITY,
    HEADS_AT,
    HEADS_MASK,
    ARENA_AT,
    ARENA_USED,
    ARENA_SIZE,
    ARENA_LIMIT,
    STAMP,
    ADDED,
    ALLOWED,
    SLOTS,
) = range(16)

_ONE = np.int64(0x80000000)
_LOW = np.int64(0xFFFFFFFF)
_HASHED = np.int64(0x7FFFFFFF)
_END = np.int64(0xFFFFFFFF)


@kernel()
def mix(value: int) -> int:
    """A finaliser that spreads every bit (splitmix64)."""
    z = np.uint64(value)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@kernel()
def canonical_float(word: int) -> int:
    """One word for every NaN and for both zeros, so that equal floats have equal words."""
    if word == _NEGATIVE_ZERO:
        return np.int64(0)
    exponent = word & np.int64(0x7FF0000000000000)
    if exponent == np.int64(0x7FF0000000000000) and (word & np.int64(0x000FFFFFFFFFFFFF)) != 0:
        return _NAN
    return word


@kernel()
def is_null(row: int, column: int) -> bool:
    return ((load_int(row, 2 + (column >> 6)) >> (column & 63)) & 1) != 0


@kernel()
def set_null(row: int, column: int) -> None:
    word = 2 + (column >> 6)
    store_int(row, word, load_int(row, word) | (np.int64(1) << np.int64(column & 63)))


@kernel()
def any_null(row: int, base: int) -> bool:
    for word in range(2, base):
        if load_int(row, word) != 0:
            return True
    return False


@kernel()
def _hash(row: int, base: int, columns: int, frame: int) -> int:
    """The hash of a row's key columns, or -1 if one of them is NULL (then nothing equals it)."""
    value = np.int64(0)
    for k in range(load_int(frame, KEYS)):
        column = load_int(columns, k)
        if is_null(row, column):
            return np.int64(-1)
        word = load_int(row, base + column)
        if load_int(load_int(frame, FLOAT_KEYS), k) != 0:
            word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value & FREE


@kernel()
def hash_event(event: int, class_: int, frame: int) -> int:
    """Where instances of a class that an event may affect are: by bound values and by constants."""
    value = _hash(event, load_int(frame, EVENT_BASE), load_int(frame, EVENT_KEYS), frame)
    if value < 0:
        return value
    if class_ == 0:
        return value & _HASHED
    record = load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS)
    value += class_
    for k in range(load_int(record, C_KEYS)):
        code = load_int(record, C_COLUMN + k)
        key = key_of(event, code >> 8, load_int(frame, EVENT_BASE), code & 255)
        if key == _NEGATIVE_ZERO:  # NULL
            return np.int64(-1)
        value = mix(value + key)
    return value & _HASHED


@kernel()
def hash_instance(row: int, group: int, frame: int) -> int:
    """The same hash from the instance's side; `group` is the address of its record."""
    value = _hash(row, load_int(frame, INSTANCE_BASE), load_int(frame, INSTANCE_KEYS), frame)
    class_ = load_int(group, G_CLASS)
    if value < 0:
        return value
    if class_ == 0:
        return value & _HASHED
    record = load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS)
    value += class_
    for k in range(load_int(record, C_KEYS)):
        value = mix(value + load_int(group, G_KEY + k))
    return value & _HASHED


@kernel()
def same_keys(instance: int, event: int, class_: int, group: int, frame: int) -> bool:
    """Whether equal hashes are equal keys. Both rows are known to have no NULL key."""
    if load_int(group, G_CLASS) != class_:
        return False
    for k in range(load_int(frame, KEYS)):
        x = load_int(
            instance, load_int(frame, INSTANCE_BASE) + load_int(load_int(frame, INSTANCE_KEYS), k)
        )
        y = load_int(event, load_int(frame, EVENT_BASE) + load_int(load_int(frame, EVENT_KEYS), k))
        if x != y:
            if load_int(load_int(frame, FLOAT_KEYS), k) == 0 or canonical_float(
                x
            ) != canonical_float(y):
                return False
    if class_ > 0:
        record = load_int(frame, CLASSES) + class_ * (8 * CLASS_WORDS)
        for k in range(load_int(record, C_KEYS)):
            code = load_int(record, C_COLUMN + k)
            key = key_of(event, code >> 8, load_int(frame, EVENT_BASE), code & 255)
            if key != load_int(group, G_KEY + k):
                return False
    return True


@kernel()
def atoms_hold(count: int, at: int, row: int, base: int, frame: int) -> bool:
    """Whether all of some atoms of the pool hold for a row."""
    atom = load_int(frame, POOL) + 8 * at
    for _ in range(count):
        test = load_int(atom, 0)
        key = key_of(row, test >> 16, base, (test >> 8) & 255)
        if not atom_holds(
            test & 255, key, load_int(atom, 1), load_int(atom, 2), load_int(frame, SETS)
        ):
            return False
        atom += 8 * ATOM_WORDS
    return True


@kernel()
def bind(row: int, first: int, frame: int) -> None:
    """Write the instance that an event of the first input starts."""
    store_int(row, 0, load_int(first, 0))
    store_int(row, 1, load_int(first, 1))
    for word in range(2, load_int(frame, INSTANCE_BASE)):
        store_int(row, word, 0)
    nulls = any_null(first, load_int(frame, FIRST_BASE))
    for column in range(load_int(frame, COLUMNS)):
        source = load_int(load_int(frame, BIND), column)
        if source < 0 or (nulls and is_null(first, source)):
            set_null(row, column)
            store_int(row, load_int(frame, INSTANCE_BASE) + column, 0)
        else:
            word = load_int(first, load_int(frame, FIRST_BASE) + source)
            store_int(row, load_int(frame, INSTANCE_BASE) + column, word)


@kernel()
def compose(out: int, instance: int, event: int, frame: int) -> None:
    """Write the composite of an instance and an event."""
    store_int(out, 0, load_int(instance, 0))
    store_int(out, 1, load_int(event, 1))
    for word in range(2, load_int(frame, OUT_BASE)):
        store_int(out, word, 0)
    nulls = any_null(instance, load_int(frame, INSTANCE_BASE)) or any_null(
        event, load_int(frame, EVENT_BASE)
    )
    for column in range(load_int(frame, EMITTED)):
        source = load_int(load_int(frame, EMIT), column)
        if source >= 0:
            word = load_int(instance, load_int(frame, INSTANCE_BASE) + source)
            null = nulls and is_null(instance, source)
        else:
            word = load_int(event, load_int(frame, EVENT_BASE) - 1 - source)
            null = nulls and is_null(event, -1 - source)
        store_int(out, load_int(frame, OUT_BASE) + column, word)
        if null:
            set_null(out, column)


# ---- slots and chains ----


@kernel()
def class_of(row: int, frame: int) -> int:
    """The address of the record of an instance's class."""
    group = load_int(frame, GROUPS) + (load_int(row, load_int(frame, GROUP)) >> 32) * (
        8 * GROUP_WORDS
    )
    return load_int(frame, CLASSES) + load_int(group, G_CLASS) * (8 * CLASS_WORDS)


@kernel()
def unlink(slot: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    link = load_int(frame, LINK)
    row = rows + slot * stride
    bucket = np.int64(load_half(row, load_int(frame, HASH))) & mask
    at = load_int(heads, bucket)
    if at == slot:
        store_int(heads, bucket, load_half(row, link))
        return
    while load_half(rows + at * stride, link) != slot:
        at = np.int64(load_half(rows + at * stride, link))
    store_half(rows + at * stride, link, load_half(row, link))


@kernel()
def free_slot(slot: int, rows: int, stride: int, numbers: int, frame: int) -> None:
    row = rows + slot * stride
    store_int(row, 1, FREE)
    store_half(row, load_int(frame, LINK), load_int(numbers, FREE_HEAD))
    store_int(numbers, FREE_HEAD, slot)
    store_int(numbers, COUNT, load_int(numbers, COUNT) - 1)
    record = class_of(row, frame)
    store_int(record, C_LIVE, load_int(record, C_LIVE) - 1)


@kernel()
def take_slot(numbers: int, stride: int, frame: int) -> int:
    """A slot that nobody uses; the rows may have moved."""
    slot = load_int(numbers, FREE_HEAD)
    if slot >= 0:
        row = load_int(numbers, ROWS_AT) + slot * stride
        store_int(numbers, FREE_HEAD, load_half(row, load_int(frame, LINK)))
        return slot
    slot = load_int(numbers, HIGH)
    store_int(numbers, HIGH, slot + 1)
    capacity = load_int(numbers, CAPACITY)
    if slot == capacity:
        capacity = max(16, capacity + max(16, capacity // 8))
        store_int(numbers, ROWS_AT, resized(load_int(numbers, ROWS_AT), capacity * (stride // 8)))
        store_int(numbers, CAPACITY, capacity)
    return slot


@kernel()
def link_slot(slot: int, rows: int, stride: int, heads: int, mask: int, frame: int) -> None:
    row = rows + slot * stride
    bucket = np.int64(load_half(row, load_int(frame, HASH))) & mask
    store_half(row, load_int(frame, LINK), load_int(heads, bucket))
    store_int(heads, bucket, slot)


@kernel()
def rehash(size: int, numbers: int, stride: int, frame: int) -> None:
    """Hang all slots in use into `size` new chains."""
    heads = resized(load_int(numbers, HEADS_AT), size)
    store_int(numbers, HEADS_AT, heads)
    store_int(numbers, HEADS_MASK, size - 1)
    for bucket in range(size):
        store_int(heads, bucket, -1)
    rows = load_int(numbers, ROWS_AT)
    for slot in range(load_int(numbers, HIGH)):
        if load_int(rows + slot * stride, 1) != FREE:
            link_slot(slot, rows, stride, heads, size - 1, frame)


# ---- members ----


@kernel()
def one_member(group: int, node: int) -> int:
    """The word of an instance with a single member."""
    return (group << 32) | _ONE | node


@kernel()
def _cell(numbers: int, node: int, following: int) -> int:
    """A new cell of the arena."""
    used = load_int(numbers, ARENA_USED)
    size = load_int(numbers, ARENA_SIZE)
    if used == size:
        size = max(64, 2 * size)
        store_int(numbers, ARENA_AT, resized(load_int(numbers, ARENA_AT), size))
        store_int(numbers, ARENA_SIZE, size)
    store_int(numbers, ARENA_USED, used + 1)
    store_int(load_int(numbers, ARENA_AT), used, (node << 32) | following)
    return used


@kernel()
def last_member(word: int, numbers: int) -> int:
    """The member that was added last."""
    code = word & _LOW
    if code & _ONE:
        return code & (_ONE - 1)
    return load_int(load_int(numbers, ARENA_AT), code) >> 32


@kernel()
def with_member(word: int, node: int, numbers: int) -> int:
    """The word of the same instance with one more member."""
    code = word & _LOW
    if code & _ONE:
        code = _cell(numbers, code & (_ONE - 1), _END)
    return ((word >> 32) << 32) | _cell(numbers, node, code)


@kernel()
def append_member(row: int, place: int, node: int, numbers: int) -> None:
    """Give the instance at `row` a member that it does not have yet."""
    used = load_int(numbers, ARENA_USED)
    size = load_int(numbers, ARENA_SIZE)
    if used + 2 > size:
        size = max(64, 2 * size)
        store_int(numbers, ARENA_AT, resized(load_int(numbers, ARENA_AT), size))
        store_int(numbers, ARENA_SIZE, size)
    arena, word = load_int(numbers, ARENA_AT), load_int(row, place)
    code = word & _LOW
    if code & _ONE:
        store_int(arena, used, ((code & (_ONE - 1)) << 32) | _END)
        code = used
        used += 1
    store_int(arena, used, (node << 32) | code)
    store_int(numbers, ARENA_USED, used + 1)
    store_int(row, place, (word ^ (word & _LOW)) | used)


@kernel()
def first_cell(word: int) -> int:
    """Where to start reading members: pass it to `member_at` and `next_cell`; -1 is the end.

    A single member is read as a cell with the top bit set.
    """
    return word & _LOW


@kernel()
def member_at(cell: int, numbers: int) -> int:
    if cell & _ONE:
        return cell & (_ONE - 1)
    return load_int(load_int(numbers, ARENA_AT), cell) >> 32


@kernel()
def next_cell(cell: int, numbers: int) -> int:
    if cell & _ONE:
        return np.int64(-1)
    following = load_int(load_int(numbers, ARENA_AT), cell) & _LOW
    return np.int64(-1) if following == _END else following


@kernel()
def head_of(state: int, group: int) -> int:
    return (group << 32) | state


@kernel()
def first_state(head: int) -> int:
    """The first state of a node, or -1."""
    return np.int64(-1) if head < 0 else head & _LOW


@kernel()
def head_at(node: int, frame: int) -> int:
    """The head of a node or of a set of nodes."""
    if node & SET:
        return load_int(load_int(frame, SET_HEADS), node ^ SET)
    return load_int(load_int(frame, FIRST_HEADS), node)


@kernel()
def state_of(node: int, frame: int) -> int:
    return first_state(head_at(node, frame))


@kernel()
def _is_wanted(node: int, group: int, frame: int) -> bool:
    """Whether some state of a first node still waits in this group."""
    state = state_of(node, frame)
    while state >= 0:
        record = load_int(frame, STATES) + state * (8 * STATE_WORDS)
        if load_int(record, S_GROUP) == group and load_int(record, S_BOUND) != DEAD:
            return True
        state = load_int(record, S_NEXT)
    return False


@kernel()
def compact_members(numbers: int, stride: int, frame: int, all_wanted: bool) -> None:
    """Copy the lists that are in use to a new arena, without members that are gone.

    `all_wanted`: nobody has gone since the last time. Instances that are left without members
    are freed; they must be unlinked by a `rehash`.
    """
    old = load_int(numbers, ARENA_AT)
    rows, place = load_int(numbers, ROWS_AT), load_int(frame, GROUP)
    # Old cells are read while new ones are written: the numbers point at one arena at a time.
    new, size, used = np.int64(0), np.int64(0), np.int64(0)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        word = load_int(row, place)
        group = word >> 32
        made = np.int64(-1)
        cell = first_cell(word)
        while cell >= 0:
            node = member_at(cell, numbers)
            cell = next_cell(cell, numbers)
            if not all_wanted and not _is_wanted(node, group, frame):
                continue
            if made < 0:
                made = (group << 32) | _ONE | node
                continue
            store_int(numbers, ARENA_AT, new)
            store_int(numbers, ARENA_SIZE, size)
            store_int(numbers, ARENA_USED, used)
            made = with_member(made, node, numbers)
            new, size = load_int(numbers, ARENA_AT), load_int(numbers, ARENA_SIZE)
            used = load_int(numbers, ARENA_USED)
            store_int(numbers, ARENA_AT, old)
        if made < 0:
            free_slot(slot, rows, stride, numbers, frame)
        else:
            store_int(row, place, made)
    release(old)
    store_int(numbers, ARENA_AT, new)
    store_int(numbers, ARENA_SIZE, size)
    store_int(numbers, ARENA_USED, used)
    store_int(numbers, ARENA_LIMIT, 2 * used + LEAST_ARENA)


@kernel()
def spell_out(numbers: int, stride: int, frame: int, starts: int, nodes: int) -> None:
    """Write the nodes of every set in the place of the set, those that somebody waits for.

    Set k has nodes[starts[k]:starts[k + 1]]. What is left without members must be unlinked by a
    `rehash`.
    """
    rows, place = load_int(numbers, ROWS_AT), load_int(frame, GROUP)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        word = load_int(row, place)
        cell, among = first_cell(word), False
        while cell >= 0:
            among |= (member_at(cell, numbers) & SET) != 0
            cell = next_cell(cell, numbers)
        if not among:
            continue
        made, cell = np.int64(-1), first_cell(word)
        while cell >= 0:
            node = member_at(cell, numbers)
            cell = next_cell(cell, numbers)
            first, last = np.int64(0), np.int64(1)
            if node & SET:
                first, last = load_int(starts, node ^ SET), load_int(starts, (node ^ SET) + 1)
            for at in range(first, last):
                own = load_int(nodes, at) if node & SET else node
                made = with_member(made, own, numbers) if made >= 0 else one_member(word >> 32, own)
        store_int(row, place, made)


@kernel()
def sweep_slots(numbers: int, stride: int, frame: int, now: int) -> None:
    """Free every instance whose longest bound is over at `now`."""
    rows, heads = load_int(numbers, ROWS_AT), load_int(numbers, HEADS_AT)
    mask, place = load_int(numbers, HEADS_MASK), load_int(frame, GROUP)
    for slot in range(load_int(numbers, HIGH)):
        row = rows + slot * stride
        if load_int(row, 1) == FREE:
            continue
        group = load_int(frame, GROUPS) + (load_int(row, place) >> 32) * (8 * GROUP_WORDS)
        bound = load_int(group, G_BOUND)
        if bound >= 0 and now - load_int(row, 0) > bound:
            unlink(slot, rows, stride, heads, mask, frame)
            free_slot(slot, rows, stride, numbers, frame)
    store_int(numbers, SWEPT, load_int(numbers, COUNT))
