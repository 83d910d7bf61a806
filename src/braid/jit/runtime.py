"""The one kernel decorator, and words read and written by address.

Rows of events and of instances are rows of 64-bit words (see `layout.py`). Generated
predicates get the *addresses* of the rows they compare: all of them then have the same
signature whatever the schema, so that the loops which call them are compiled once, for all
queries, and kept; only the small predicate is compiled for each shape of query
(`llvm_code.py`).
Passing arrays instead costs 70 ns a call in reference counting, addresses cost 2.

With the compiler off (`NUMBA_DISABLE_JIT=1`, a lane of the tests) the same functions run as
plain Python, and words are read through ctypes.

This module does not import the compiler. A kernel finds its code, compiled ahead or by an earlier
process, in the store (`compiled/store.py`); only if it is not there, the kernel is compiled
(`compiled/compiler.py`).
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir

from braid.jit import allocations, types
from braid.jit.compiled.compile_lock import compiled_once
from braid.jit.records import Pointer, pointer_parameters
from braid.jit.types import COMPILED as COMPILED
from braid.jit.types import intrinsic, key_of, keys_of_type, type_of

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(*signature: tuple[Any, ...]) -> Callable[[_F], _F]:
    """Compile without the interpreter and without fast-math.

    Without a signature: for the types that it is called with, by Python or by another kernel (of
    which it becomes a part: `compiled/inline_compiler.py`; so it may not call itself).
    With the types of its arguments, a tuple: for these, and only Python calls it. Python gives such a
    kernel predicates and writers, and the kernel gets their addresses: it makes a function of one with
    `predicate_at` or `writer_at`. Numba would look up the code of a function anew, for 0.1 ms, in each
    call.

    All of them are loaded, or compiled, when they are first called; what a program does not use costs
    it nothing.
    """

    def decorate(function: _F) -> _F:
        pointers = pointer_parameters(function)
        if not COMPILED:
            return cast(_F, _checked(function, pointers, wraps=bool(signature)))
        if not signature:
            return cast(_F, Kernel(function, pointers))
        return cast(_F, Entry(function, *signature))

    return decorate


_lock = threading.RLock()


def _loaded(function: Any, arguments: tuple[types.Type, ...]) -> Any:
    """The code of a kernel for these types, in memory."""
    from braid.jit.compiled import machine_code, store

    with _lock:
        key = store.key_of(function, arguments)
        code = None if key is None else store.find(key)
        if code is None:
            with compiled_once(function):
                code = None if key is None else store.find(key)
                if code is None:
                    from braid.jit.compiled.compiler import compiled

                    code = compiled(function, arguments)
                    if key is not None:
                        store.add(key, code)
        return machine_code.load(code, function)


#: The kernels without signatures that this process has called, with the types of the arguments.
calls: set[str] = set()


class Kernel(types.Callee):
    """A kernel without a signature: it has code for all types that it has been called with."""

    def __init__(self, function: Callable[..., Any], pointers: dict[int, type[Pointer]]) -> None:
        functools.update_wrapper(self, function)
        super().__init__(function, pointers)
        self._arity = function.__code__.co_argcount
        #: The loaded code, by the keys of the types.
        self.loaded: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        try:
            call = self.loaded[tuple(map(key_of, args))]
        except KeyError:
            return self._load(args)(*args)
        return call(*args)

    def _load(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        if len(args) != self._arity:
            name, count = self.function.__name__, len(args)
            raise TypeError(f"{name} takes {self._arity} arguments, and not {count}")
        arguments = tuple(map(type_of, args))
        call: Callable[..., Any] = _loaded(self.function, arguments).call
        calls.add(
            f"{self.function.__module__}.{self.function.__qualname__}{types.Tuple(arguments)}"
        )
        self.loaded[tuple(map(key_of, args))] = call
        return call


class Entry:
    """A kernel with the types of its arguments, which only Python calls."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[types.Type, ...]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.arguments = function, arguments
        self._functions = [n for n, a in enumerate(arguments) if isinstance(a, types.FunctionType)]
        self._arrays = [
            (n, frozenset(keys_of_type(a)))
            for n, a in enumerate(arguments)
            if isinstance(a, types.Array)
        ]
        self._call: Callable[..., Any] | None = None

    @functools.cached_property
    def _code(self) -> Any:
        return _loaded(self.function, self.arguments)

    @property
    def at(self) -> int:
        """The address of its code, for generated code to call."""
        return int(self._code.at)

    def __call__(self, *args: Any) -> Any:
        call = self._call
        if call is None:
            call = self._call = self._code.call
        for n, keys in self._arrays:  # the code itself only looks at the size of elements
            if key_of(args[n]) not in keys:
                self._refuse(n, args[n])
        if self._functions:
            given = list(args)
            for n in self._functions:
                given[n] = given[n].at
            return call(*given)
        return call(*args)

    def _refuse(self, n: int, value: Any) -> None:
        found = type_of(value)
        name = self.function.__name__
        raise TypeError(f"{name}: argument {n + 1} is {found}, not {self.arguments[n]}")


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


def _function_at(kind: Any) -> Any:
    @intrinsic
    def function_at(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            function = context.make_helper(builder, signature.return_type)
            function.jit_addr = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
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
