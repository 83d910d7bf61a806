"""The family of selections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.algebra.nodes import Select
from braid.algebra.relations import KeepRows
from braid.operators.core.family import Family, MopKind
from braid.operators.select.explain import index_line, selection_box, selection_lines
from braid.operators.select.planning import keep_rows, select
from braid.operators.select.rules import C_SIGMA, D_SIGMA, S_SIGMA
from braid.operators.select.spec import SelectionSpec
from braid.plan.plan import streams_of

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _selection(spec: SelectionSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.select.logic import SelectionLogic

    streams = [stream for channel in inputs for stream in streams_of(channel)]
    return SelectionLogic(spec, context, streams)


FAMILY = Family(
    "select",
    mops=(MopKind(SelectionSpec, "selection", _selection, selection_lines, selection_box),),
    rules=(D_SIGMA, S_SIGMA, C_SIGMA),
    plans={Select: select, KeepRows: keep_rows},
    statistics={"selection": lambda detail: [index_line(detail)]},
)
