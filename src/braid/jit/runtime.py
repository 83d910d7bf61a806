"""The one kernel decorator, and words read and written by address.

Rows of events and of instances are rows of 64-bit words (see `layout.py`). Generated
predicates get the *addresses* of the rows they compare: all of them then have the same
signature whatever the schema, so that the loops which call them are compiled once, for all
queries, and cached on disk; only the small predicate is compiled for each shape of query
(`llvm_code.py`).
Passing arrays instead costs 70 ns a call in reference counting, addresses cost 2.

With the compiler off (`NUMBA_DISABLE_JIT=1`, a lane of the tests) the same functions run as
plain Python, and words are read through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from braid.jit import allocations
from braid.jit.cache import forget_stale_results
from braid.jit.compile_lock import compiled_once
from braid.jit.inline_compiler import as_part
from braid.jit.records import Pointer, PointerType, pointer_parameters

COMPILED = not numba.config.DISABLE_JIT

if COMPILED:
    forget_stale_results()

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": False}
_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(*signature: tuple[Any, ...]) -> Callable[[_F], _F]:
    """Compile without the interpreter and without fast-math, cached on disk.

    Without a signature: for the types that it is called with, by Python or by another kernel (of
    which it becomes a part: `inline_compiler.py`; so it may not call itself).
    With the types of its arguments, a tuple: for these, when Python first calls it; what a
    program does not use costs it nothing. Python gives such a kernel predicates and writers, and
    the kernel gets their addresses: it makes a function of one with `predicate_at` or `writer_at`.
    Numba would look up the code of a function anew, for 0.1 ms, in each call.
    """

    def decorate(function: _F) -> _F:
        pointers = pointer_parameters(function)
        if not COMPILED:
            return cast(_F, _checked(function, pointers, wraps=bool(signature)))
        if not signature:
            compiled = _compiled(function, no_cfunc_wrapper=True)
            _call_as_part(compiled, function, pointers)
            _compile_once(compiled, function)
        else:
            compiled = _Entry(function, *signature)
        return cast(_F, compiled)

    return decorate


def _compiled(function: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    return numba.njit(*signature, **_OPTIONS, **options)(function)


def _call_as_part(
    compiled: Any, function: Callable[..., Any], pointers: dict[int, type[Pointer]]
) -> None:
    """What kernels call is the part; compiled once for a type, and not again for each constant."""

    @functools.cache
    def part() -> Any:
        return as_part(function, **_OPTIONS)

    def get_call_template(args: Any, kws: Any) -> Any:
        for place, expected in pointers.items():
            if place < len(args) and not _points_to(args[place], expected):
                message = f"{function.__name__}: argument {place + 1} is {args[place]}, not {expected.type}"
                raise TypingError(message)
        given = [_given(a, pointers.get(place)) for place, a in enumerate(args)]
        return part().get_call_template(given, kws)

    compiled.get_call_template = get_call_template
    compiled.get_overload = lambda signature: part().get_overload(signature)


def _points_to(argument: Any, expected: type[Pointer]) -> bool:
    return isinstance(argument, PointerType) and issubclass(argument.target, expected)


def _given(argument: Any, expected: type[Pointer] | None) -> Any:
    """The type that a part is compiled for: the record that it takes, and one for all pointers where
    it takes an address."""
    if expected is not None:
        return expected.type
    return types.int64 if isinstance(argument, PointerType) else types.unliteral(argument)


def _checked(
    function: Callable[..., Any], pointers: dict[int, type[Pointer]], *, wraps: bool
) -> Callable[..., Any]:
    """The function without the compiler: pointers are of the records that it says.

    `wraps`: Python calls it, and may give addresses as integers.
    """
    if not pointers:
        return function

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        given = list(args)
        for place, expected in pointers.items():
            if wraps and not isinstance(given[place], Pointer):
                given[place] = expected(given[place])
            if not isinstance(given[place], expected):
                message = f"argument {place + 1} is {given[place]!r}, not a pointer to {expected}"
                raise TypeError(f"{function.__name__}: {message}")
        return function(*given)

    return called


def _compile_once(compiled: Any, function: Callable[..., Any]) -> None:
    compile_for = compiled._compile_for_args

    def compile_for_args(*args: Any, **kws: Any) -> Any:
        with compiled_once(function):
            return compile_for(*args, **kws)

    compiled._compile_for_args = compile_for_args


class _Entry:
    """A kernel that only Python calls, compiled when it does."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._functions = [n for n, a in enumerate(arguments) if isinstance(a, types.FunctionType)]
        self._pointers = [n for n, a in enumerate(arguments) if isinstance(a, PointerType)]
        self._arguments = tuple(
            types.int64 if n in self._functions else a for n, a in enumerate(arguments)
        )
        self._compiled: Any = None

    @property
    def at(self) -> int:
        """The address of its code, for generated code to call."""
        if self._compiled is None:
            self._compile()
        result = self._compiled.overloads[self._arguments]
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))

    def _compile(self) -> None:
        with compiled_once(self._function):
            self._compiled = _compiled(self._function, self._arguments, no_cfunc_wrapper=True)

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            self._compile()
        if self._functions or self._pointers:
            given = list(args)
            for n in self._functions:
                given[n] = given[n].at
            for n in self._pointers:
                given[n] = int(given[n])  # Numba finds out the type of an object slowly
            return self._compiled(*given)
        return self._compiled(*args)


def _function_at(kind: Any) -> Any:
    @intrinsic
    def function_at(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            function = cgutils.create_struct_proxy(kind)(context, builder)
            function.jit_addr = builder.inttoptr(args[0], cgutils.voidptr_t)
            return function._getvalue()

        return kind(types.int64), generate

    return function_at


def _loader(result: Any, llvm: ir.Type) -> Any:
    @intrinsic
    def load(_context: Any, _base: Any, _index: Any) -> Any:
        def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], llvm.as_pointer())
            return builder.load(builder.gep(pointer, [args[1]]))

        return result(types.int64, types.int64), generate

    return load


def _storer(value: Any, llvm: ir.Type) -> Any:
    @intrinsic
    def store(_context: Any, _base: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], llvm.as_pointer())
            builder.store(args[2], builder.gep(pointer, [args[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, value), generate

    return store


@intrinsic
def _load_narrow(_context: Any, _base: Any, _index: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.sext(builder.load(builder.gep(pointer, [args[1]])), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _float_bits(_context: Any, _value: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def _prefetch(_context: Any, _address: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        pointer = builder.inttoptr(args[0], byte)
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return _ctx.get_dummy_value()

    return types.void(types.int64), generate


if COMPILED:
    prefetch = _prefetch
    float_bits = _float_bits
    load_int = _loader(types.int64, ir.IntType(64))
    #: A word of memory that is not ours: with the compiler off, one that is not checked.
    load_foreign = load_int
    load_float = _loader(types.float64, ir.DoubleType())
    load_byte = _loader(types.uint8, ir.IntType(8))
    load_half = _loader(types.int32, ir.IntType(32))
    #: A word of 32 bits as a whole one: what is computed with it has one type.
    load_narrow = _load_narrow
    store_int = _storer(types.int64, ir.IntType(64))
    store_half = _storer(types.int32, ir.IntType(32))
    store_float = _storer(types.float64, ir.DoubleType())
else:

    def prefetch(base: int) -> None:
        """Nothing to gain without the compiler."""

    def float_bits(value: float) -> np.int64:
        return np.int64(float_word(float(value)))

    def load_int(base: int, index: int) -> int:
        return _at(ctypes.c_int64, int(base) + 8 * int(index)).value

    def load_foreign(base: int, index: int) -> int:
        return ctypes.c_int64.from_address(int(base) + 8 * int(index)).value

    def load_float(base: int, index: int) -> float:
        return _at(ctypes.c_double, int(base) + 8 * int(index)).value

    def load_byte(base: int, index: int) -> int:
        return _at(ctypes.c_uint8, int(base) + int(index)).value

    def load_half(base: int, index: int) -> int:
        return _at(ctypes.c_int32, int(base) + 4 * int(index)).value

    def load_narrow(base: int, index: int) -> int:
        return load_half(base, index)

    def store_half(base: int, index: int, value: int) -> None:
        _at(ctypes.c_int32, int(base) + 4 * int(index)).value = int(value)

    def store_int(base: int, index: int, value: int) -> None:
        _at(ctypes.c_int64, int(base) + 8 * int(index)).value = int(value)

    def store_float(base: int, index: int, value: float) -> None:
        _at(ctypes.c_double, int(base) + 8 * int(index)).value = float(value)

    def _at(kind: Any, place: int) -> Any:
        allocations.check(place, ctypes.sizeof(kind))
        return kind.from_address(place)


@kernel()
def _address(array: np.ndarray) -> int:
    return np.int64(array.ctypes.data)


if COMPILED:
    #: Where an array's data are, as a signed word.
    address = _address
else:

    def address(array: np.ndarray) -> int:
        """Where an array's data are: kernels may read and write it as long as the array lives."""
        allocations.array_allocated(array)
        return _address(array)


#: predicate(instance, event, parameters, strings) -> whether it is true
PREDICATE = types.boolean(types.int64, types.int64, types.int64, types.int64)
#: writer(instance, event, parameters, strings, output): writes words of an output row
WRITER = types.void(types.int64, types.int64, types.int64, types.int64, types.int64)
PREDICATE_TYPE = types.FunctionType(PREDICATE)
WRITER_TYPE = types.FunctionType(WRITER)

if COMPILED:
    predicate_at = _function_at(PREDICATE_TYPE)
    writer_at = _function_at(WRITER_TYPE)
else:

    def predicate_at(given: Any) -> Any:
        """Without the compiler, kernels are given the function itself."""
        return given

    writer_at = predicate_at

WORDS = types.Array(types.int64, 1, "C")
ROWS = types.Array(types.int64, 2, "C")


def float_word(value: float) -> int:
    """The word that holds a float."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])
