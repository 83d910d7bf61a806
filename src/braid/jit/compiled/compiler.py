"""The compiler: object code of kernels, with Numba. It is loaded only if a kernel has to be compiled.

Kernels, intrinsics, records and types are plain objects until then (`runtime.py`, `records.py`,
`types.py`); here Numba learns what they are.
"""

from __future__ import annotations

import functools
import inspect
import logging
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numba
from numba import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.extending import intrinsic, typeof_impl

from braid.jit import types
from braid.jit.compiled.inline_compiler import as_part
from braid.jit.compiled.machine_code import Code
from braid.jit.compiled.record_types import PointerType, pointer_type, register_records
from braid.jit.types import Type

logger = logging.getLogger("braid.jit")

_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": False}

# The modules in C may be loaded already, without the package that they are attributes of.
for _name in ("_helperlib", "_dynfunc", "core.runtime._nrt_python"):
    _package, _, _attribute = f"numba.{_name}".rpartition(".")
    setattr(sys.modules[_package], _attribute, sys.modules[f"numba.{_name}"])

register_records()


def compiled(function: Any, arguments: tuple[Type, ...]) -> Code:
    """The object code of a kernel for these types."""
    logger.debug("compiling %s.%s%s", function.__module__, function.__qualname__, arguments)
    signature = tuple(
        numba_types.int64 if isinstance(a, types.FunctionType) else numba_type(a) for a in arguments
    )
    dispatcher = numba.njit(
        signature, no_cfunc_wrapper=True, pipeline_class=_WholeEntry, **_OPTIONS
    )(function)
    (result,) = dispatcher.overloads.values()
    described = result.fndesc
    return Code(
        described.llvm_func_name,
        described.llvm_cpython_wrapper_name,
        described.env_name,
        pickle.dumps(list(result.environment.consts)),
        result.library._get_compiled_object(),
    )


class _WholeEntry(Compiler):
    """A kernel with all of its parts, optimised as a whole; the object code is kept."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = JITCodeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


# ---- what Numba finds when it reads the names in a kernel ----


@typeof_impl.register(types.Callee)
def _typeof_kernel(kernel: types.Callee, _context: Any) -> Any:
    return numba_types.Dispatcher(_part(kernel))


@typeof_impl.register(types.Intrinsic)
def _typeof_intrinsic(given: types.Intrinsic, _context: Any) -> Any:
    return cpu_target.typing_context.resolve_value_type(_intrinsic(given))


@typeof_impl.register(types.External)
def _typeof_external(given: types.External, _context: Any) -> Any:
    return numba_types.ExternalFunction(given.symbol, numba_type(given.signature))


@functools.cache
def _part(kernel: types.Callee) -> Any:
    """What kernels call: compiled once for a type, and not again for each constant."""
    made = as_part(kernel.function, **_OPTIONS)
    template_of = made.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        for place, expected in kernel.pointers.items():
            if place < len(args) and not _points_to(args[place], expected):
                name = kernel.function.__name__
                message = f"{name}: argument {place + 1} is {args[place]}, not {expected.type}"
                raise TypingError(message)
        given = [_given(a, kernel.pointers.get(place)) for place, a in enumerate(args)]
        return template_of(given, kws)

    made.get_call_template = get_call_template
    return made


def _points_to(argument: Any, expected: Any) -> bool:
    return isinstance(argument, PointerType) and issubclass(argument.target, expected)


def _given(argument: Any, expected: Any) -> Any:
    """The type that a part is compiled for: the record that it takes, and one for all pointers where
    it takes an address."""
    if expected is not None:
        return pointer_type(expected)
    if isinstance(argument, PointerType):
        return numba_types.int64
    return numba_types.unliteral(argument)


@functools.cache
def _intrinsic(given: types.Intrinsic) -> Any:
    definition = given.definition

    def defined(context: Any, *args: Any) -> Any:
        signature, generate = definition(context, *args)
        return numba_type(signature), generate

    parameters = inspect.signature(definition)
    made = functools.wraps(definition)(_with_parameters(defined, list(parameters.parameters)))
    known = intrinsic(made)
    cpu_target.typing_context.refresh()
    return known


def _with_parameters(function: Callable[..., Any], names: list[str]) -> Any:
    """The function with parameters of these names: Numba counts them."""
    listed = ", ".join(names)
    scope: dict[str, Any] = {"function": function}
    exec(f"def defined({listed}): return function({listed})", scope)
    return scope["defined"]


# ---- types ----


@functools.cache
def numba_type(given: Type) -> Any:
    """The type in Numba."""
    match given:
        case types.Signature():
            return numba_type(given.result)(*map(numba_type, given.arguments))
        case types.FunctionType():
            return numba_types.FunctionType(numba_type(given.signature))
        case types.Array():
            dtype = numba_type(given.dtype)
            return numba_types.Array(
                dtype, given.ndim, given.layout, readonly=given.readonly, aligned=given.aligned
            )
        case types.Pointer():
            return pointer_type(given.target)
        case types.Tuple():
            return _tuple_type(tuple(map(numba_type, given.items)), given.cls)
        case _:
            return getattr(numba_types, given.name)


def _tuple_type(items: tuple[Any, ...], cls: Any) -> Any:
    if items and len(set(items)) == 1:
        if cls is None:
            return numba_types.UniTuple(items[0], len(items))
        return numba_types.NamedUniTuple(items[0], len(items), cls)
    return numba_types.Tuple(items) if cls is None else numba_types.NamedTuple(items, cls)
