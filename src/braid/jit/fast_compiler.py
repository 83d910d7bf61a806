"""Plain code is compiled without looking for what it does not have.

Predicates and writers are generated, one for each shape of query, and compiled when the first
query of a shape comes: here every pass of the compiler is time that a user waits. They are
assignments, conditions and calls, with no function or comprehension in them, no array and
nothing that is known only to be constant; half of Numba's passes look for these.
"""

from __future__ import annotations

from typing import Any

from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager

_PASSES = (
    (untyped.TranslateByteCode, "analyzing bytecode"),
    (untyped.FixupArgs, "fix up args"),
    (untyped.IRProcessing, "processing IR"),
    (untyped.ReconstructSSA, "ssa"),
    (typed.NopythonTypeInference, "nopython frontend"),
    (typed.PreLowerStripPhis, "remove phis nodes"),
    (typed.NoPythonSupportedFeatureValidation, "ensure features that are in use are valid"),
    (typed.IRLegalization, "ensure IR is legal prior to lowering"),
    (typed.AnnotateTypes, "annotate types"),
    (typed.NativeLowering, "native lowering"),
    (typed.NoPythonBackend, "nopython mode backend"),
)


class PlainCompiler(CompilerBase):
    def define_pipelines(self) -> Any:
        passes = PassManager("plain")
        for each, why in _PASSES:
            passes.add_pass(each, why)
        passes.finalize()
        return [passes]
