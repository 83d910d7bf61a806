"""How events find instances: hashes of the values that must be equal, from both sides."""

from __future__ import annotations

import numpy as np

from braid.jit.hashing import canonical_float, mix
from braid.jit.records import Words
from braid.jit.rows import is_null
from braid.jit.runtime import kernel
from braid.operators.core.kernels.clauses import NULL_KEY
from braid.operators.core.kernels.keys import key_of
from braid.operators.pattern.kernels.records import Frame, Group, KeyClass, Link

_POSITIVE = np.int64(0x7FFFFFFFFFFFFFFF)
_HASHED = np.int64(0x7FFFFFFF)


@kernel()
def _hash(row: Words, base: int, columns: Words, frame: Frame) -> int:
    """The hash of a row's key columns, or -1 if one of them is NULL (then nothing equals it)."""
    value = np.int64(0)
    for k in range(frame.key_count):
        column = columns[k]
        if is_null(row, column):
            return np.int64(-1)
        word = row[base + column]
        if frame.float_keys[k] != 0:
            word = canonical_float(word)
        value = mix(value + word + np.int64(0x9E3779B97F4A7C))
    return value & _POSITIVE


@kernel()
def _event_key(event: Words, key: int, frame: Frame) -> int:
    """The word of an event that a key compares. It is known not to be NULL."""
    word = event[frame.event_base + frame.event_keys[key]]
    return canonical_float(word) if frame.float_keys[key] != 0 else word


@kernel()
def _instance_key(row: Words, group: Group, key: int, frame: Frame) -> int:
    """The word of an instance's key: a bound value, or a constant of its group."""
    column = frame.instance_keys[key]
    if column >= 0:
        word = row[frame.instance_base + column]
    else:
        word = frame.parameters[group.parameters - 1 - column]
    return canonical_float(word) if frame.float_keys[key] != 0 else word


@kernel()
def _is_key_bound(row: Words, key: int, frame: Frame) -> bool:
    """Whether an instance has a value for a key that is not NULL."""
    column = frame.instance_keys[key]
    return column < 0 or not is_null(row, column)


@kernel()
def _static_key(event: Words, key_class: KeyClass, number: int, frame: Frame) -> int:
    code = key_class.columns[number]
    return key_of(event, code >> 8, frame.event_base, code & 255)


@kernel()
def hash_event(event: Words, class_: int, alternative: int, frame: Frame) -> int:
    """The hash of the instances of a class that an event may affect, by one alternative; -1: it
    affects none."""
    value = _hash(event, frame.event_base, frame.event_keys, frame)
    if value < 0:
        return value
    for key in range(frame.starts[alternative], frame.starts[alternative + 1]):
        if is_null(event, frame.event_keys[key]):
            return np.int64(-1)
        value = mix(value + _event_key(event, key, frame))
    if class_ == 0:
        return value & _HASHED
    key_class = frame.classes[class_]
    value += class_
    for k in range(key_class.count):
        word = _static_key(event, key_class, k, frame)
        if word == NULL_KEY:
            return np.int64(-1)
        value = mix(value + word)
    return value & _HASHED


@kernel()
def hash_instance(row: Words, group: Group, alternative: int, frame: Frame) -> int:
    """The same hash from the instance's side."""
    value = _hash(row, frame.instance_base, frame.instance_keys, frame)
    class_ = group.key_class
    if value < 0:
        return value
    for key in range(frame.starts[alternative], frame.starts[alternative + 1]):
        if not _is_key_bound(row, key, frame):
            return np.int64(-1)
        value = mix(value + _instance_key(row, group, key, frame))
    if class_ == 0:
        return value & _HASHED
    value += class_
    for k in range(frame.classes[class_].count):
        value = mix(value + group.keys[k])
    return value & _HASHED


@kernel()
def write_hashes(row: Words, group: Group, frame: Frame) -> bool:
    """Write the hashes of an instance; whether some event may find it."""
    found, links = False, Link(row + frame.link_offset)
    if frame.one_hash != 0:
        value = group.hash - 1
        if value < 0:
            value = hash_instance(row, group, np.int64(0), frame)
            group.hash = value + 1
        links.hash = value
        return True
    for alternative in range(frame.alternatives):
        value = hash_instance(row, group, alternative, frame)
        links[alternative].hash = value
        found |= value >= 0
    return found


@kernel()
def has_hash(row: Words, frame: Frame) -> bool:
    """What `write_hashes` said of an instance."""
    found, links = False, Link(row + frame.link_offset)
    for alternative in range(frame.alternatives):
        found |= links[alternative].hash >= 0
    return found


@kernel()
def _are_equal(instance: Words, event: Words, alternative: int, group: Group, frame: Frame) -> bool:
    """Whether the keys of an alternative are equal."""
    for key in range(frame.starts[alternative], frame.starts[alternative + 1]):
        if is_null(event, frame.event_keys[key]):
            return False
        if not _is_key_bound(instance, key, frame):
            return False
        if _event_key(event, key, frame) != _instance_key(instance, group, key, frame):
            return False
    return True


@kernel()
def is_first_alternative(
    instance: Words, event: Words, alternative: int, group: Group, frame: Frame
) -> bool:
    """Whether an alternative leads an event to an instance, and none before it does."""
    for earlier in range(alternative):
        if _are_equal(instance, event, earlier, group, frame):
            return False
    return _are_equal(instance, event, alternative, group, frame)


@kernel()
def same_keys(instance: Words, event: Words, class_: int, group: Group, frame: Frame) -> bool:
    """Whether the keys of all alternatives are equal. Both rows have no NULL among them."""
    if group.key_class != class_:
        return False
    for k in range(frame.key_count):
        x = instance[frame.instance_base + frame.instance_keys[k]]
        y = event[frame.event_base + frame.event_keys[k]]
        if x != y:
            if frame.float_keys[k] == 0 or canonical_float(x) != canonical_float(y):
                return False
    if class_ > 0:
        key_class = frame.classes[class_]
        for k in range(key_class.count):
            if _static_key(event, key_class, k, frame) != group.keys[k]:
                return False
    return True
