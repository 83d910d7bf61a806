"""The family of groups: GROUP BY, SELECT DISTINCT, and the group of no rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import DistinctRows, GroupRows
from braid.operators.core.family import Detail, Family, MopKind
from braid.operators.core.wording import counted
from braid.operators.group.planning import distinct_rows, group_rows
from braid.operators.group.rules import C_ALPHA, S_ALPHA
from braid.operators.group.spec import GroupSpec, NothingSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _group(spec: GroupSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.group.logic import GroupLogic

    return GroupLogic(spec, context)


def _nothing(spec: NothingSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.group.empty_group import NothingLogic

    return NothingLogic(spec, context)


def _lines(spec: GroupSpec, found: Detail, unit: str) -> Iterator[str]:
    what = "distinct row" if spec.distinct else "group"
    yield f"{counted(found['groups'], what)} of {counted(found['nodes'], 'relation')}"


FAMILY = Family(
    "group",
    mops=(
        MopKind(GroupSpec, "grouping", _group, _lines),
        MopKind(NothingSpec, "grouping", _nothing),
    ),
    rules=(S_ALPHA, C_ALPHA),
    plans={GroupRows: group_rows, DistinctRows: distinct_rows},
)
