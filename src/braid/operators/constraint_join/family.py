"""The family of joins that use constraints, and of what watches declared ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import Join
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec
from braid.operators.constraint_join.explain import constraint_lines, watch_line
from braid.operators.constraint_join.planning import join_form, joins_below
from braid.operators.constraint_join.rules import K_JOIN
from braid.operators.constraint_join.spec import CHANGES, ConstraintJoinSpec, is_own_join
from braid.operators.constraint_join.usage import with_reasons
from braid.operators.constraint_join.watch_planning import asked_of_streams, is_watched, watch
from braid.operators.core.family import ConstraintUse, Detail, Family, MopKind
from braid.operators.join.explain import window_join_lines
from braid.operators.join.spec import GrowingJoinSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _join(spec: ConstraintJoinSpec, context: Context, inputs: Sequence[str]) -> Logic:
    if CHANGES in spec.windows:
        from braid.operators.constraint_join.delta.logic import ChangesJoinLogic

        return ChangesJoinLogic(spec, context)
    from braid.operators.constraint_join.logic import ConstraintJoinLogic

    return ConstraintJoinLogic(spec, context)


def _growing(spec: GrowingJoinSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.constraint_join.logic import growing_join

    return growing_join(spec, context)


def _watch(spec: DeclaredWatchSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.constraint_join.declared_logic import DeclaredWatchLogic

    return DeclaredWatchLogic(spec, context)


def _join_lines(spec: ConstraintJoinSpec, found: Detail, unit: str) -> Iterable[str]:
    return constraint_lines(found)


def _growing_lines(spec: GrowingJoinSpec, found: Detail, unit: str) -> Iterator[str]:
    """Until it has grown, what a window join says."""
    if found["has_grown"]:
        yield "uses constraints since it has grown beyond what is kept without"
        yield from constraint_lines(found)
    else:
        yield from window_join_lines(spec, found, unit)
        yield f"too little is held to use constraints: less than {found['spill_above']:,} bytes"


def _watch_lines(spec: DeclaredWatchSpec, found: Detail, unit: str) -> Iterator[str]:
    yield watch_line(found)


def _join_statistics(detail: Detail) -> Iterable[str]:
    """Other joins have no such detail."""
    return constraint_lines(detail) if "one_result" in detail else ()


def _watch_statistics(detail: Detail) -> Iterator[str]:
    yield f"constraint {detail['name']} ({detail['declared']}): {watch_line(detail)}"


FAMILY = Family(
    "constraint_join",
    mops=(
        MopKind(ConstraintJoinSpec, "join", _join, _join_lines),
        MopKind(GrowingJoinSpec, "join", _growing, _growing_lines),
        MopKind(
            DeclaredWatchSpec,
            "watch",
            _watch,
            _watch_lines,
            origin="made because queries join what the constraint is about",
        ),
    ),
    rules=(K_JOIN,),
    forms={Join: join_form},
    statistics={"join": _join_statistics, "watch": _watch_statistics},
    constraints=ConstraintUse(
        rule=K_JOIN.name,
        is_own=is_own_join,
        reads=asked_of_streams,
        watch=watch,
        may_use=joins_below,
        is_watched=is_watched,
        with_reasons=with_reasons,
    ),
)
