"""The family of DETECT: whether a join of streams has results, found by synopses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import ToStream
from braid.operators.core.family import Detail, Family, MopKind
from braid.operators.detect.planning import detected
from braid.operators.detect.rules import S_DETECT
from braid.operators.detect.spec import DetectionSpec, detection_lines

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _detection(spec: DetectionSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.detect.keyed_logic import KeyedDetections
    from braid.operators.detect.logic import WholeDetections

    return KeyedDetections(spec, context) if spec.partition else WholeDetections(spec, context)


def _lines(spec: DetectionSpec, found: Detail, unit: str) -> Iterable[str]:
    return detection_lines(found)


FAMILY = Family(
    "detect",
    mops=(MopKind(DetectionSpec, "detection", _detection, _lines),),
    rules=(S_DETECT,),
    forms={ToStream: detected},
)
