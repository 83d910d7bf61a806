"""The rows that a join holds, with those of their columns that have codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.operators.core.base import Held
from braid.operators.core.columns import Rows
from braid.operators.join.state import Holdings
from braid.plan.layout import Layout
from braid.plan.specs import Shape


class HoldsRows:
    """A logic that holds rows of several inputs."""

    _holdings: Holdings

    @property
    def _shapes(self) -> Sequence[Shape]:
        """The shape of the rows of each input."""
        raise AssertionError("every join has shapes")

    def _carried(self) -> list[tuple[int, int, str]]:
        """Columns whose words mean something only together with a table: input, column, name."""
        return [
            (i, column, f"{i}.{a.name}")
            for i, shape in enumerate(self._shapes)
            for column, a in enumerate(shape.schema)
            if kind_of(a.type) in (Kind.STRING, Kind.OPAQUE)
        ]

    def held(self) -> Held | None:
        """The columns of all rows that have codes; those of other inputs are NULL."""
        carried = self._carried()
        if not carried:
            return None
        layout = Layout(tuple(name for _, _, name in carried))
        types = tuple(self._shapes[i].schema.attributes[c].type for i, c, _ in carried)
        parts = []
        for number, shape in enumerate(self._shapes):
            rows = self._holdings.rows(number)
            out = np.zeros((len(rows), layout.width), np.int64)
            for target, (i, column, _) in enumerate(carried):
                mask, bit = 2 + target // 64, np.int64(1) << np.int64(target % 64)
                if i == number:
                    out[:, layout.base + target] = rows[:, shape.layout.base + column]
                    null = (rows[:, 2 + column // 64] >> np.int64(column % 64)) & 1
                    out[:, mask] |= np.where(null != 0, bit, np.int64(0))
                else:
                    out[:, mask] |= bit
            parts.append(out)
        return Held(np.concatenate(parts), layout, types)

    def replace_held(self, rows: Rows) -> None:
        carried = self._carried()
        base = Layout(tuple(name for _, _, name in carried)).base
        first = 0
        for number, count in enumerate(self._holdings.counts()):
            own = [(t, c) for t, (i, c, _) in enumerate(carried) if i == number]
            if own and count:
                layout = self._shapes[number].layout
                words = np.array([layout.base + c for _, c in own], np.int64)
                values = rows[first : first + count, [base + t for t, _ in own]]
                self._holdings.rewrite(number, words, values)
            first += count
