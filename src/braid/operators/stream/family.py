"""The family of what makes streams of streams: unions, SAMETIME, channels and published streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.algebra.nodes import SameTime, Union
from braid.operators.core.family import Family, MopKind
from braid.operators.stream.planning import same_time, union
from braid.operators.stream.rules import S_BETA, S_UNION
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
        MopKind(SameTimeSpec, "aggregation", _same_time),
        MopKind(EncodeSpec, "channel", _channel),
        MopKind(
            PublishSpec,
            "publication",
            _publication,
            origin="made because the stream is read as it is, not its operators",
            has_members=False,
        ),
    ),
    rules=(S_UNION, S_BETA),
    plans={Union: union, SameTime: same_time},
)
