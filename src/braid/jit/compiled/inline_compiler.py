"""Kernels that other kernels call are compiled into these, and not by themselves.

Numba makes machine code of every function that it compiles, with all that the function calls in it,
so what lies at the bottom of a chain of calls is optimised once for each function above it: most of
the time that compiling took. Nobody calls a part from Python, so a part is left as it was lowered,
with its own parts; whoever Python does call is optimised as a whole, once.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, ClassVar

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from braid.cache_directory import cache_directory
from braid.jit.compiled import cpu
from braid.jit.compiled.cache import digest_of_function

_ENVIRONMENT = "_ZN08NumbaEnv"


class PartLibrary(JITCodeLibrary):
    """Code to be linked into other code. What is made ready to run, and kept on disk as such, is an
    empty module with the places where the runtime notes the environments of functions."""

    _final_module: Any
    _dynamic_globals: list[str]

    def _optimize_functions(self, ll_module: Any) -> None:
        """Only what makes it smaller: variables out of memory, and nothing that has no use."""
        ll_module.data_layout = self._codegen._data_layout
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(ll_module, self._codegen._pass_builder())

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        dynamic = self._dynamic_globals
        names = [v.name for v in self._final_module.global_variables]
        self._shared_module = self._to_be_linked()
        self._final_module = self._empty([n for n in names if n.startswith(_ENVIRONMENT)])
        self._finalize_final_module()
        self._dynamic_globals = dynamic

    def _to_be_linked(self) -> Any:
        """Its functions may be defined several times, inlined, and left out."""
        module = self._final_module
        for function in module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        return module

    def _empty(self, names: list[str]) -> Any:
        module = self._codegen._create_empty_module(self.name)
        for name in names:
            place = ir.GlobalVariable(module, ir.IntType(8).as_pointer(), name)
            place.linkage = "common"
            place.initializer = ir.Constant(place.value_type, None)
        made = llvm.parse_assembly(str(module))
        made.name = self.name
        return made


class PartCompiler(Compiler):
    def define_pipelines(self) -> Any:
        state = self.state
        state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class _Place(_CacheLocator):
    """Where parts are kept: in the cache directory, in a folder for each version of their sources."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    @classmethod
    def from_function(cls, function: Any, _path: Any) -> _Place | None:
        directory, digest = cache_directory(), digest_of_function(function)
        if directory is None or digest is None:
            return None
        return cls(str(directory / "parts" / f"{function.__module__}-{digest}"))

    def get_cache_path(self) -> str:
        return self._directory

    def get_source_stamp(self) -> str:
        return cpu.versions()

    def get_disambiguator(self) -> None:
        return None


class _PartCacheImpl(CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [_Place]


class _PartCache(FunctionCache):
    _impl_class = _PartCacheImpl


def as_part(function: Callable[..., Any], **options: Any) -> Any:
    """The function for kernels to call; kept in the cache directory if its sources identify it."""
    copied = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    copied.__module__ = function.__module__
    copied.__qualname__ = f"part.{function.__qualname__}"
    part = numba.njit(
        pipeline_class=PartCompiler, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )(copied)
    if _Place.from_function(copied, None) is not None:
        part._cache = _PartCache(copied)
    return part
