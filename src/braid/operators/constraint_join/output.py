"""The residual of a constraint join, and the columns of its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.expressions import Source, is_true
from braid.algebra.relations import place
from braid.jit import codegen, records
from braid.jit.runtime import address
from braid.operators.constraint_join.kernels.records import Frame, Shown
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.core.base import Context
from braid.operators.core.values import Words
from braid.operators.join.kernels.frame import Source as Emitted
from braid.operators.join.probe_orders import residual_of
from braid.plan.layout import Layout


class Output:
    """The residual, compiled, and the columns of the output, as the frame of a join has them.

    `never`: the residual has no columns, and is not true.
    """

    def __init__(self, spec: ConstraintJoinSpec, context: Context, frame: Frame) -> None:
        self._spec, self._context, self._frame = spec, context, frame
        self._parts: list[Words] = []
        self.residual: Any = codegen.always
        columns = residual_of(spec).columns
        constants = self._compile(Layout(columns))
        self._show(columns, constants)
        self._describe_rows()
        self.never = not columns and not is_true(spec.residual) and not self._of_nothing()

    def _compile(self, layout: Layout) -> list[int]:
        self._asked: Words = np.zeros(layout.width, np.int64)
        self._frame.asked = records.Words.at(self._asked)
        self._frame.asked_base = layout.base
        if is_true(self._spec.residual):
            return []
        places = {Source.INPUT: codegen.Place("e", layout)}
        function = codegen.predicate(self._spec.residual, places)
        self.residual = function.compiled
        return [self._word(p.value) for p in function.parameters]

    def _word(self, value: int | str) -> int:
        return self._context.values.strings.pin(value) if isinstance(value, str) else value

    def _kept(self, values: Sequence[int]) -> Words:
        part = np.array([*values, 0], np.int64)
        self._parts.append(part)
        return part

    def _show(self, columns: Sequence[str], constants: Sequence[int]) -> None:
        shown = [place(name) for name in columns]
        triples = [
            w
            for target, (i, name) in enumerate(shown)
            for w in (i, self._spec.inputs[i].layout.column(name), target)
        ]
        self._frame.constants = records.Words.at(self._kept(constants))
        self._frame.shown = Shown.at(self._kept(triples))
        self._frame.shown_count = len(shown)

    def _describe_rows(self) -> None:
        frame, out = self._frame, self._spec.output.layout
        columns = [(i, self._spec.inputs[i].layout.column(name)) for _, i, name in self._spec.emit]
        frame.emit = Emitted.at(self._kept([w for pair in columns for w in pair]))
        frame.emitted = len(columns)
        frame.out_base, frame.out_width = out.base, out.width

    def _of_nothing(self) -> bool:
        """A residual of constants only is asked once, of nothing."""
        strings = address(self._context.values.strings.description)
        asked, constants = self._frame.asked.address, self._frame.constants.address
        return bool(self.residual(np.int64(0), asked, constants, strings))
