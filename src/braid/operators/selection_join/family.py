"""The family of selection joins: very many queries with one join, each with its own ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import Join
from braid.operators.core.family import Family, MopKind
from braid.operators.selection_join.explain import selection_join_lines
from braid.operators.selection_join.planning import selection_join
from braid.operators.selection_join.rules import S_SELECTION_JOIN
from braid.operators.selection_join.spec import SelectionJoinSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _selection_join(spec: SelectionJoinSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.selection_join.logic import SelectionJoinLogic

    return SelectionJoinLogic(spec, context)


FAMILY = Family(
    "selection_join",
    mops=(MopKind(SelectionJoinSpec, "join", _selection_join, selection_join_lines),),
    rules=(S_SELECTION_JOIN,),
    forms={Join: selection_join},
)
