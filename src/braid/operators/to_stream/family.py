"""The family of what makes streams of relations: Istream, Dstream and Rstream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import ToStream
from braid.operators.core.family import Detail, Family, MopKind
from braid.operators.core.wording import counted
from braid.operators.to_stream.planning import to_stream
from braid.operators.to_stream.rules import S_STREAM
from braid.operators.to_stream.spec import ToStreamSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _to_stream(spec: ToStreamSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.to_stream.logic import ToStreamLogic

    return ToStreamLogic(spec, context)


def _lines(spec: ToStreamSpec, found: Detail, unit: str) -> Iterator[str]:
    if spec.kind == "Rstream":
        rows = counted(found["rows"], "distinct row")
        yield f"keeps {rows} of {counted(found['relations'], 'relation')}"


FAMILY = Family(
    "to_stream",
    mops=(MopKind(ToStreamSpec, "relation stream", _to_stream, _lines),),
    rules=(S_STREAM,),
    plans={ToStream: to_stream},
)
