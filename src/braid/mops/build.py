"""From a spec to a running m-op."""

from __future__ import annotations

from braid.mops.base import Context, Logic, State
from braid.mops.pattern import PatternLogic
from braid.mops.project import ProjectLogic
from braid.mops.sametime import SameTimeLogic
from braid.mops.select import SelectLogic
from braid.mops.union import UnionLogic
from braid.plan.specs import PatternSpec, ProjectSpec, SameTimeSpec, SelectSpec, Spec, UnionSpec


def build(spec: Spec, context: Context, state: State | None = None) -> Logic:
    """The logic of a spec, empty or with the state that a logic of the same spec saved."""
    match spec:
        case SelectSpec():
            return SelectLogic(spec, context)
        case ProjectSpec():
            return ProjectLogic(spec, context)
        case UnionSpec():
            return UnionLogic()
        case PatternSpec():
            return PatternLogic(spec, context, state)
        case SameTimeSpec():
            return SameTimeLogic(spec, context.values)
    raise AssertionError(f"no m-op for {type(spec).__name__}")
