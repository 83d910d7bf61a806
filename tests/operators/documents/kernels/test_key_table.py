"""Tables from four words to a number."""

import numpy as np

from braid.jit.records import filled
from braid.jit.runtime import kernel
from braid.operators.documents.kernels.key_table import Entry, KeyTable, clear, fill, look
from braid.operators.documents.paths import empty_table


@kernel((KeyTable.type,))
def second(table: KeyTable) -> int:
    return look(table, 1, 2, 3, 5)


@kernel((KeyTable.type,))
def emptied(table: KeyTable) -> int:
    clear(table)
    return look(table, 1, 2, 3, 5)


def test_keys_are_found_until_the_table_is_cleared() -> None:
    entries = np.array([(1, 2, 3, 4, 10), (1, 2, 3, 5, 11), (1, 2, 3, 5, 12)], Entry.dtype)
    room = empty_table(8)
    table = filled(KeyTable, entries=room)
    assert second(KeyTable.at(table)) == -1
    fill(KeyTable.at(table), Entry.at(entries), len(entries))
    assert second(KeyTable.at(table)) == 12
    assert np.count_nonzero(room["number"] >= 0) == 2
    assert emptied(KeyTable.at(table)) == -1
