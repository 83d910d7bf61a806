"""The family of what makes streams of streams: unions, SAMETIME, channels and published streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braid.algebra.nodes import SameTime, Union
from braid.operators.core.family import Detail, Family, MopKind
from braid.operators.core.wording import counted
from braid.operators.stream.planning import same_time, union
from braid.operators.stream.rules import C_BETA, S_BETA, S_UNION, T_BETA
from braid.operators.stream.spec import SameTimeSpec, UnionSpec
from braid.plan.channel_specs import EncodeSpec, PublishSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _union(spec: UnionSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.stream.union import UnionLogic

    return UnionLogic(spec)


def _same_time(spec: SameTimeSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.stream.sametime import SameTimeLogic

    return SameTimeLogic(spec, context.values)


def _lines(spec: SameTimeSpec, found: Detail, unit: str) -> Iterator[str]:
    if not spec.membered:
        return
    births = f", {counted(found['births'], 'birth')}" if found["births"] > 1 else ""
    yield counted(found["nodes"], "node") + births
    if spec.shared:
        yield "computed once for all nodes that see the same events of an instant"


def _channel(spec: EncodeSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.stream.encode import EncodeLogic

    return EncodeLogic(spec)


def _publication(spec: PublishSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.stream.publish import PublishLogic

    return PublishLogic(spec)


FAMILY = Family(
    "stream",
    mops=(
        MopKind(UnionSpec, "union", _union),
        MopKind(SameTimeSpec, "aggregation", _same_time, _lines),
        MopKind(EncodeSpec, "channel", _channel),
        MopKind(
            PublishSpec,
            "publication",
            _publication,
            origin="made because the stream is read as it is, not its operators",
            has_members=False,
        ),
    ),
    rules=(S_UNION, S_BETA, T_BETA, C_BETA),
    plans={Union: union, SameTime: same_time},
)
