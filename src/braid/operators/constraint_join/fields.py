"""Fields of many records as a table of words, which is how a state saves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.operators.core.values import Words

#: An array of records, of the type `Record.dtype`.
Records = np.ndarray[Any, Any]


def read_fields(records: Records, names: Sequence[str]) -> Words:
    """A column for each field."""
    return np.stack([records[name] for name in names], axis=1)


def write_fields(records: Records, names: Sequence[str], words: Words) -> None:
    """Set fields to what `read_fields` gave."""
    for name, column in zip(names, words.reshape(len(records), len(names)).T, strict=True):
        records[name] = column


def words_of(records: Records) -> Words:
    """All fields, as a view."""
    return records.view(np.int64).reshape(len(records), -1)
