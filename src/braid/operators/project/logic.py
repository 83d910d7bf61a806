"""Projection, renaming and attribute introduction: each output column computed from one row.

Columns that only move are moved as whole arrays; computed ones are written by generated code;
functions that build strings or take nested values apart run over whole Arrow columns
(`column_functions.py`). The planner has split expressions so that no item mixes the last two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.expressions import Expression, Literal, Ref, Source
from braid.algebra.functions import is_vector
from braid.algebra.types import Kind, kind_of
from braid.jit import codegen
from braid.operators.core.base import Context, Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, moved, nulls_of, set_nulls, words_of
from braid.operators.core.constants import Constants
from braid.operators.core.fanout import Fanout
from braid.operators.core.kernels.rows import write_pairs, write_rows
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, grown, signatures
from braid.operators.core.values import Words
from braid.operators.project.column_functions import evaluate
from braid.operators.project.spec import ProjectRecipe, ProjectSpec
from braid.plan.layout import MASK


class ProjectLogic(Stateless):
    """Without constants of members an event is computed once, and keeps its members; with them,
    once for each member."""

    def __init__(self, spec: ProjectSpec, context: Context) -> None:
        self._source, self._target = spec.input.layout, spec.output.layout
        self._context = context
        self._spec = spec
        moves, vectors, computed = [], [], []
        for name, expression in spec.items:
            if isinstance(expression, Ref):
                moves.append((self._target.column(name), self._source.column(expression.name)))
            elif is_vector(expression) or _carried_null(expression):
                vectors.append((self._target.column(name), expression))
            else:
                computed.append((name, expression))
        self._moves, self._vectors = moves, vectors
        self._only_moves = [c for _, c in moves] if len(moves) == len(spec.items) else None
        places = {Source.INPUT: codegen.Place("e", self._source)}
        self._function = codegen.writer(computed, self._target, places) if computed else None
        self.nodes = Nodes()
        self._fanout = Fanout()
        self._parameters: Words = np.zeros(8, np.int64)
        self.takes_bits = not spec.constants

    def admit(
        self, recipe: ProjectRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        (origin,) = origins
        if not self._spec.constants:
            return origin or nobody(constants.count)
        origin = origin or nobody(constants.count)
        columns = [
            *origin.signatures.T.copy(),
            *(w for c in recipe.constants for w in constants.content(c)),
        ]
        numbers, rows = self.nodes.add(signatures("project", constants.count, columns))
        if len(rows):
            new = numbers[rows]
            self._fanout.add(origin.numbers[rows], new)
            width = self._spec.constants
            self._parameters = grown(self._parameters, width * (int(new.max()) + 1))
            part = constants.chosen(rows)
            for k, constant in enumerate(recipe.constants):
                self._parameters[width * new + k] = part.words(constant)
        return origin_of(self.nodes, numbers)

    def dismiss(self, numbers: Words) -> Words:
        if not self._spec.constants:
            return np.empty(0, np.int64)
        gone = self.nodes.release(numbers)
        self._fanout.remove(gone)
        return gone

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        (batch,) = inputs
        if self._spec.constants:
            return self._for_each(self._fanout.applied(batch))
        batch = batch.compact()
        rows = self._computed(batch.rows, None)
        return Batch(rows, batch.index, batch.members, batch.sets)

    def _for_each(self, batch: Batch) -> Batch:
        assert batch.members is not None
        rows = self._computed(batch.alone(), batch.members)
        return Batch(rows, np.arange(len(rows), dtype=np.int32), batch.members)

    def _computed(self, rows: Rows, members: np.ndarray | None) -> Rows:
        if self._only_moves is not None:
            if self._only_moves == list(range(len(self._source.names))):
                return rows
            return moved(rows, self._source, self._target, self._only_moves)
        out = np.zeros((len(rows), self._target.width), np.int64)
        out[:, :MASK] = rows[:, :MASK]
        if not len(rows):
            return out
        for target, source in self._moves:
            out[:, self._target.base + target] = rows[:, self._source.base + source]
            set_nulls(out, target, nulls_of(rows, source))
        for target, expression in self._vectors:
            self._write_vector(rows, out, target, expression)
        if self._function is not None:
            addresses = self._context.addresses(self._parameters)
            rows = np.ascontiguousarray(rows)
            if members is None:
                write_rows(rows, self._function.compiled, addresses, out)
            else:
                own = self._spec.constants * members.astype(np.int64)
                places = np.arange(len(rows), dtype=np.int64)
                write_pairs(rows, places, own, self._function.compiled, addresses, out)
        return out

    def _write_vector(self, rows: Rows, out: Rows, target: int, expression: Expression) -> None:
        array = evaluate(expression, rows, self._spec.input, self._context)
        out[:, self._target.base + target] = words_of(array, expression.type, self._context.values)
        if array.null_count:
            set_nulls(out, target, array.is_null().to_numpy(zero_copy_only=False))


def _carried_null(expression: Expression) -> bool:
    """A NULL or constant of a type that has no word of its own."""
    return isinstance(expression, Literal) and kind_of(expression.type) is Kind.OPAQUE
