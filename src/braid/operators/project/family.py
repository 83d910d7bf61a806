"""The family of projections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braid.algebra.nodes import Project
from braid.algebra.relations import MapRows
from braid.operators.core.family import Detail, Family, MopKind
from braid.operators.core.wording import counted
from braid.operators.project.planning import map_rows, project
from braid.operators.project.rules import C_PI, S_PI
from braid.operators.project.spec import ProjectSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _projection(spec: ProjectSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.project.logic import ProjectLogic

    return ProjectLogic(spec, context)


def _lines(spec: ProjectSpec, found: Detail, unit: str) -> Iterator[str]:
    if spec.constants:
        yield f"computed for each member: {counted(spec.constants, 'constant')}"
    elif spec.membered:
        yield "computed once an event, whoever its members are"


FAMILY = Family(
    "project",
    mops=(MopKind(ProjectSpec, "projection", _projection, _lines),),
    rules=(S_PI, C_PI),
    plans={Project: project, MapRows: map_rows},
)
