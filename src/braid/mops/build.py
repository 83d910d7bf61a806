"""From a spec to a running m-op."""

from __future__ import annotations

from collections.abc import Sequence

from braid.mops.base import Context, Logic
from braid.mops.buffer import BufferLogic
from braid.mops.constraint_changes import ChangesJoinLogic
from braid.mops.constraint_declared import DeclaredWatchLogic
from braid.mops.constraint_join import ConstraintJoinLogic
from braid.mops.detection import WholeDetections
from braid.mops.detection_partition import KeyedDetections
from braid.mops.documents import DocumentsLogic
from braid.mops.encode import EncodeLogic
from braid.mops.group import GroupLogic
from braid.mops.join import JoinLogic
from braid.mops.nothing import NothingLogic
from braid.mops.project import ProjectLogic
from braid.mops.publish import PublishLogic
from braid.mops.sametime import SameTimeLogic
from braid.mops.selection import SelectionLogic
from braid.mops.selection_join import SelectionJoinLogic
from braid.mops.step import StepLogic
from braid.mops.to_stream import ToStreamLogic
from braid.mops.union import UnionLogic
from braid.mops.window import WindowLogic
from braid.mops.window_join import WindowJoinLogic
from braid.plan.constraint_join import CHANGES, ConstraintJoinSpec
from braid.plan.declared_watch import DeclaredWatchSpec
from braid.plan.detection import DetectionSpec
from braid.plan.documents import DocumentsSpec
from braid.plan.plan import streams_of
from braid.plan.relational import (
    BufferSpec,
    GroupSpec,
    JoinSpec,
    NothingSpec,
    ToStreamSpec,
    WindowJoinSpec,
    WindowSpec,
)
from braid.plan.selection_join import SelectionJoinSpec
from braid.plan.specs import (
    EncodeSpec,
    ProjectSpec,
    PublishSpec,
    SameTimeSpec,
    SelectionSpec,
    Spec,
    StepSpec,
    UnionSpec,
)


def build(spec: Spec, context: Context, inputs: Sequence[str] = ()) -> Logic:
    """The logic of a spec, without members; `inputs` are the channels that it reads."""
    match spec:
        case SelectionSpec():
            streams = [stream for channel in inputs for stream in streams_of(channel)]
            return SelectionLogic(spec, context, streams)
        case ProjectSpec():
            return ProjectLogic(spec, context)
        case UnionSpec():
            return UnionLogic(spec)
        case StepSpec():
            return StepLogic(spec, context)
        case SameTimeSpec():
            return SameTimeLogic(spec, context.values)
        case EncodeSpec():
            return EncodeLogic(spec)
        case PublishSpec():
            return PublishLogic(spec)
        case WindowSpec():
            return WindowLogic(spec, context)
        case ConstraintJoinSpec() if CHANGES in spec.windows:
            return ChangesJoinLogic(spec, context)
        case ConstraintJoinSpec():
            return ConstraintJoinLogic(spec, context)
        case DeclaredWatchSpec():
            return DeclaredWatchLogic(spec, context)
        case SelectionJoinSpec():
            return SelectionJoinLogic(spec, context)
        case WindowJoinSpec():
            return WindowJoinLogic(spec, context)
        case JoinSpec():
            return JoinLogic(spec, context)
        case GroupSpec():
            return GroupLogic(spec, context)
        case BufferSpec():
            return BufferLogic(spec, context)
        case NothingSpec():
            return NothingLogic(spec, context)
        case DocumentsSpec():
            return DocumentsLogic(spec, context)
        case ToStreamSpec():
            return ToStreamLogic(spec, context)
        case DetectionSpec():
            made = KeyedDetections if spec.partition else WholeDetections
            return made(spec, context)
    raise AssertionError(f"no m-op for {type(spec).__name__}")
