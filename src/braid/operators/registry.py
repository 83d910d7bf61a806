"""From a spec to a running m-op."""

from __future__ import annotations

from collections.abc import Sequence

from braid.operators.constraint_join.declared_logic import DeclaredWatchLogic
from braid.operators.constraint_join.declared_spec import DeclaredWatchSpec
from braid.operators.constraint_join.delta.logic import ChangesJoinLogic
from braid.operators.constraint_join.logic import ConstraintJoinLogic, growing_join
from braid.operators.constraint_join.spec import CHANGES, ConstraintJoinSpec
from braid.operators.core.base import Context, Logic
from braid.operators.detect.keyed_logic import KeyedDetections
from braid.operators.detect.logic import WholeDetections
from braid.operators.detect.spec import DetectionSpec
from braid.operators.documents.logic import DocumentsLogic
from braid.operators.documents.spec import DocumentsSpec
from braid.operators.group.empty_group import NothingLogic
from braid.operators.group.logic import GroupLogic
from braid.operators.group.spec import GroupSpec, NothingSpec
from braid.operators.join.logic import JoinLogic
from braid.operators.join.spec import GrowingJoinSpec, JoinSpec, WindowJoinSpec
from braid.operators.join.window_join import WindowJoinLogic
from braid.operators.pattern.logic import StepLogic
from braid.operators.pattern.spec import StepSpec
from braid.operators.project.logic import ProjectLogic
from braid.operators.project.spec import ProjectSpec
from braid.operators.select.logic import SelectionLogic
from braid.operators.select.spec import SelectionSpec
from braid.operators.selection_join.logic import SelectionJoinLogic
from braid.operators.selection_join.spec import SelectionJoinSpec
from braid.operators.stream.encode import EncodeLogic
from braid.operators.stream.publish import PublishLogic
from braid.operators.stream.sametime import SameTimeLogic
from braid.operators.stream.spec import EncodeSpec, PublishSpec, SameTimeSpec, UnionSpec
from braid.operators.stream.union import UnionLogic
from braid.operators.to_stream.logic import ToStreamLogic
from braid.operators.to_stream.spec import ToStreamSpec
from braid.operators.window.buffer import BufferLogic
from braid.operators.window.logic import WindowLogic
from braid.operators.window.spec import BufferSpec, WindowSpec
from braid.plan.plan import streams_of
from braid.plan.specs import Spec


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
        case GrowingJoinSpec():
            return growing_join(spec, context)
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
