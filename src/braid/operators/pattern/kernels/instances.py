"""Rows of instances and of composites, and the tests of rows."""

from __future__ import annotations

from braid.jit.records import Words
from braid.jit.rows import any_null, is_null, set_null
from braid.jit.runtime import kernel
from braid.operators.core.kernels.clauses import atom_holds
from braid.operators.core.kernels.keys import key_of
from braid.operators.pattern.kernels.records import Frame
from braid.plan.layout import END, MASK, START


@kernel()
def tested_key(row: Words, test: int, base: int) -> int:
    """The key of a row that a test looks at; a state's test has something else in its upper half."""
    return key_of(row, (test >> 16) & 0xFFFF, base, (test >> 8) & 255)


@kernel()
def atoms_hold(count: int, first: int, row: Words, base: int, frame: Frame) -> bool:
    """Whether `count` atoms from a first one on hold for a row."""
    for k in range(first, first + count):
        atom = frame.atoms[k]
        key = tested_key(row, atom.test, base)
        if not atom_holds(atom.test & 255, key, atom.low, atom.high, frame.sets):
            return False
    return True


@kernel()
def bind(row: Words, first: Words, frame: Frame) -> None:
    """Write the instance that an event of the first input starts."""
    base, first_base = frame.instance_base, frame.first_base
    sources, columns = frame.bind, frame.columns
    row[START] = first[START]
    row[END] = first[END]
    for word in range(MASK, base):
        row[word] = 0
    nulls = any_null(first, first_base)
    if not nulls and frame.binds_all != 0:
        for column in range(columns):
            row[base + column] = first[first_base + sources[column]]
        return
    for column in range(columns):
        source = sources[column]
        if source < 0 or (nulls and is_null(first, source)):
            set_null(row, column)
            row[base + column] = 0
        else:
            row[base + column] = first[first_base + source]


@kernel()
def compose(out: Words, instance: Words, event: Words, frame: Frame) -> None:
    """Write the composite of an instance and an event."""
    base, instance_base, event_base = frame.out_base, frame.instance_base, frame.event_base
    sources, columns = frame.emit, frame.emitted
    out[START] = instance[START]
    out[END] = event[END]
    for word in range(MASK, base):
        out[word] = 0
    nulls = any_null(instance, instance_base) or any_null(event, event_base)
    for column in range(columns):
        source = sources[column]
        if source >= 0:
            out[base + column] = instance[instance_base + source]
        else:
            out[base + column] = event[event_base - 1 - source]
    if not nulls:
        return
    for column in range(columns):
        source = sources[column]
        null = is_null(instance, source) if source >= 0 else is_null(event, -1 - source)
        if null:
            set_null(out, column)
