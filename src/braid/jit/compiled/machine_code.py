"""Compiled kernels as object code: what is stored, and how it becomes functions for Python.

The compiler (Numba) makes object code of a kernel and of a wrapper that Python calls. This module
loads it into the process with LLVM's linker, without the compiler: to import Numba takes longer than
to load all kernels that a query needs. Of Numba it loads only the C modules that the wrappers call.
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import importlib.machinery
import importlib.util
import pickle
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from braid.jit.compiled.cpu import numba_folder

#: The modules of Numba in C that wrappers use, and the names under which wrappers know their functions.
_C_MODULES = {
    "_helperlib": "numba_",
    "_dynfunc": "numba_",
    "core.runtime._nrt_python": "NRT_",
}


class Code(NamedTuple):
    """A compiled kernel.

    `native` is the symbol of the function that other code calls, `wrapper` of the one for Python,
    `environment` of the place of the Python objects `constants`, which the wrapper uses.
    """

    native: str
    wrapper: str
    environment: str
    constants: bytes
    objects: bytes


class Loaded(NamedTuple):
    """A kernel in the memory of this process."""

    call: Callable[..., Any]
    at: int


_lock = threading.RLock()


def load(code: Code, function: Any) -> Loaded:
    """Make a compiled kernel ready to run. `function`: its source, for messages."""
    with _lock:
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.objects))
        engine.finalize_object()
        made = _c_module("_dynfunc").Environment(function.__globals__)
        made.consts.extend(pickle.loads(code.constants))
        _environments.append(made)
        place = engine.get_global_value_address(code.environment)
        if place:
            ctypes.c_void_p.from_address(place).value = id(made)
        module = sys.modules.get(function.__module__) or ModuleType(function.__module__)
        call = _c_module("_dynfunc").make_function(
            module, function.__name__, function.__doc__ or "",
            engine.get_function_address(code.wrapper), made, (engine,),
        )  # fmt: skip
        return Loaded(call, engine.get_function_address(code.native))


#: The environments of all kernels that are loaded: machine code refers to them.
_environments: list[Any] = []


@functools.cache
def _engine() -> Any:
    """LLVM's linker, with the functions that kernels call."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, prefix in _C_MODULES.items():
        for symbol, address in _c_module(name).c_helpers.items():
            llvm.add_symbol(
                symbol if symbol.startswith("_") and prefix == "NRT_" else prefix + symbol, address
            )
    llvm.add_symbol("_Py_NoneStruct", id(None))
    llvm.add_symbol("numba_unpickle", ctypes.cast(_unpickled, ctypes.c_void_p).value)
    for each in vars(builtins).values():
        if isinstance(each, type) and issubclass(each, BaseException):
            llvm.add_symbol(f"PyExc_{each.__name__}", id(each))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _c_module(name: str) -> Any:
    """A module of Numba in C, loaded without the package. If Numba is imported later, it takes it."""
    full = f"numba.{name}"
    if full in sys.modules:
        return sys.modules[full]
    folder = numba_folder().joinpath(*name.split(".")[:-1])
    spec = importlib.machinery.PathFinder.find_spec(full, [str(folder)])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)
    return module


_objects: dict[bytes, Any] = {}


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def _unpickled(data: int, size: int, _digest: int) -> Any:
    """An object that a wrapper needs, such as the class of a named tuple that it returns.

    Numba's own function imports all of Numba.
    """
    text = ctypes.string_at(data, size)
    if text not in _objects:
        _objects[text] = pickle.loads(text)
    return _objects[text]
