"""The family of joins: of relations that come and go, and with windows by time inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import Join
from braid.operators.core.family import Family, MopKind
from braid.operators.join.explain import (
    attribute_join_lines,
    join_lines,
    window_join_lines,
    without_constraints,
)
from braid.operators.join.planning import join_rows
from braid.operators.join.rules import C_JOIN, S_ATTRIBUTE_JOIN, S_JOIN, S_WINDOW_JOIN
from braid.operators.join.spec import AttributeJoinSpec, JoinSpec, WindowJoinSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _join(spec: JoinSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.join.logic import JoinLogic

    return JoinLogic(spec, context)


def _window_join(spec: WindowJoinSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.join.window_join import WindowJoinLogic

    return WindowJoinLogic(spec, context)


def _attribute_join(spec: AttributeJoinSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.join.attribute_join import AttributeJoinLogic

    return AttributeJoinLogic(spec, context)


FAMILY = Family(
    "join",
    mops=(
        MopKind(JoinSpec, "join", _join, without_constraints(join_lines)),
        MopKind(WindowJoinSpec, "join", _window_join, without_constraints(window_join_lines)),
        MopKind(
            AttributeJoinSpec, "join", _attribute_join, without_constraints(attribute_join_lines)
        ),
    ),
    rules=(S_JOIN, C_JOIN, S_WINDOW_JOIN, S_ATTRIBUTE_JOIN),
    plans={Join: join_rows},
    composites=frozenset({Join}),
)
