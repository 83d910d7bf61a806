"""Selection: the rows for which a predicate is true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.expressions import Source
from braid.kernels.rows import select_rows
from braid.mops import codegen
from braid.mops.base import Context, Stateless
from braid.mops.columns import Rows
from braid.plan.specs import SelectSpec


class SelectLogic(Stateless):
    def __init__(self, spec: SelectSpec, context: Context) -> None:
        places = {Source.INPUT: codegen.Place("e", spec.input.layout)}
        self._function = codegen.predicate(spec.predicate, places)
        self._parameters = context.parameters(self._function.parameters)
        self._context = context.addresses(self._parameters)

    def on_batch(self, inputs: Sequence[Rows], bound: int) -> Rows:
        (rows,) = inputs
        if not len(rows):
            return rows
        found = np.empty(len(rows), np.int64)
        count = select_rows(rows, self._function.compiled, self._context, found)
        return rows if count == len(rows) else rows[found[:count]]
