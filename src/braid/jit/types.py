"""The types of what kernels take and return, as data.

To name a signature costs nothing: the compiler (`compiled/compiler.py`) is loaded only if a kernel has to be
compiled. The names are those of Numba: `int64`, `float64[::1]`, `Array(int64, 2, "C")`,
`boolean(int64, int64)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: Whether kernels are compiled. Without the compiler they run as plain Python.
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


class Type:
    """A type. Its name identifies it, also in other processes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, *arguments: Type) -> Signature:
        return Signature(self, arguments)

    def __getitem__(self, item: Any) -> Array:
        assert item == slice(None, None, 1), "[::1] names an array without gaps; use Array"
        return Array(self, 1, "C")


def _listed(items: Iterable[Type]) -> str:
    return ", ".join(item.name for item in items)


class Signature(Type):
    """The type of a function."""

    def __init__(self, result: Type, arguments: tuple[Type, ...]) -> None:
        self.result, self.arguments = result, arguments
        super().__init__(f"{result}({_listed(arguments)})")


class FunctionType(Type):
    """A function that is passed to a kernel, by its address."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        super().__init__(f"function {signature}")


class Array(Type):
    """An array; layout is "C", "F" or "A" (any)."""

    def __init__(
        self, dtype: Type, ndim: int, layout: str, readonly: bool = False, aligned: bool = True
    ) -> None:
        self.dtype, self.ndim, self.layout = dtype, ndim, layout
        self.readonly, self.aligned = readonly, aligned
        flags = " readonly" * readonly + " unaligned" * (not aligned)
        super().__init__(f"{dtype}[{ndim}{layout}{flags}]")


class Tuple(Type):
    """A tuple, or a named tuple of that class."""

    def __init__(self, items: Iterable[Type], cls: Any = None) -> None:
        self.items, self.cls = tuple(items), cls
        name = "" if cls is None else f"{cls.__module__}.{cls.__qualname__}"
        super().__init__(f"{name}({_listed(self.items)})")

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and getattr(other, "cls", None) is self.cls

    __hash__ = Type.__hash__


class Pointer(Type):
    """A pointer to records of a class, or to numbers (`records.py`)."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(f"{target.__module__}.{target.__qualname__}*")

    def __eq__(self, other: object) -> bool:
        return type(other) is Pointer and other.target is self.target

    __hash__ = Type.__hash__


class External:
    """A function of the C library, for kernels to call."""

    def __init__(self, symbol: str, signature: Signature) -> None:
        self.symbol, self.signature = symbol, signature


class Intrinsic:
    """Instructions for kernels: a definition as `numba.extending.intrinsic` takes it.

    Its signature is of the types of this module. It is given to the compiler when a kernel that uses
    it is compiled.
    """

    def __init__(self, definition: Callable[..., Any]) -> None:
        self.definition = definition
        self.__name__ = definition.__name__

    def __call__(self, *_args: Any) -> Any:
        raise NotImplementedError(f"{self.__name__} is for compiled kernels only")


class Callee:
    """A kernel that kernels call. `pointers`: the records that its parameters point to, by place."""

    def __init__(self, function: Callable[..., Any], pointers: dict[int, Any]) -> None:
        self.function, self.pointers = function, pointers


def intrinsic(definition: Callable[..., Any]) -> Any:
    """The decorator of a definition of instructions."""
    return Intrinsic(definition)


def ExternalFunction(symbol: str, signature: Signature) -> Any:
    """A function of the C library, by its symbol."""
    return External(symbol, signature)


def NamedTuple(items: Iterable[Type], cls: Any) -> Tuple:
    """The type of a named tuple of these items."""
    return Tuple(items, cls)


def NamedUniTuple(item: Type, count: int, cls: Any) -> Tuple:
    """The type of a named tuple whose items have one type."""
    return Tuple((item,) * count, cls)


def UniTuple(item: Type, count: int) -> Tuple:
    """The type of a tuple whose items have one type."""
    return Tuple((item,) * count)


boolean, void, none = Type("boolean"), Type("void"), Type("none")
int8, int16, int32, int64 = (Type(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Type(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = Type("float32"), Type("float64")

_SCALARS: dict[type, Type] = {
    int: int64,
    bool: boolean,
    float: float64,
    np.bool_: boolean,
    type(None): none,
    **{np.dtype(t.name).type: t for t in (int8, int16, int32, int64, float32, float64)},
    **{np.dtype(t.name).type: t for t in (uint8, uint16, uint32, uint64)},
}
_NUMBERS = {np.dtype(kind).num: known for kind, known in _SCALARS.items() if kind is not type(None)}
_NUMBERS |= {np.dtype(code).num: Type(np.dtype(code).name) for code in ("q", "Q", "l", "L")}

#: Of the flags of an array: C and Fortran order, aligned, writeable.
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_FLAGS = _C | _F | _ALIGNED | _WRITEABLE

#: What identifies the type of a value among the values that a kernel is called with.
Key = Any


def key_of(value: Any) -> Key:
    """What a kernel finds its code by: equal for values of one type, and cheaper than the type."""
    kind = type(value)
    if kind in _SCALARS:
        return kind
    if isinstance(value, np.ndarray):
        return (value.dtype.num, value.ndim, value.flags.num & _FLAGS)
    if isinstance(value, tuple):
        return (kind, *map(key_of, value))
    return kind


def type_of(value: Any) -> Type:
    """The type that a kernel is compiled for if it is called with this value."""
    known = _SCALARS.get(type(value))
    if known is not None:
        return known
    if isinstance(value, np.ndarray):
        return _array_type(value)
    if isinstance(value, tuple):
        named = hasattr(value, "_fields")
        return Tuple(map(type_of, value), type(value) if named else None)
    pointer = getattr(type(value), "type", None)
    if isinstance(pointer, Pointer):
        return pointer
    raise TypeError(f"kernels take no {type(value).__qualname__}")


def _array_type(array: np.ndarray) -> Array:
    number = _NUMBERS.get(array.dtype.num)
    if number is None or not array.dtype.isnative:
        raise TypeError(f"kernels take no array of {array.dtype}")
    flags = array.flags.num
    layout = "C" if flags & _C else "F" if flags & _F else "A"
    return Array(number, array.ndim, layout, not flags & _WRITEABLE, bool(flags & _ALIGNED))


def keys_of_type(expected: Array) -> set[Key]:
    """The keys of the arrays that a parameter of a type takes."""
    number = {num for num, known in _NUMBERS.items() if known == expected.dtype}
    assert expected.layout == "C", f"{expected}: parameters are arrays without gaps"
    return {
        (num, expected.ndim, _C | fortran | _ALIGNED | _WRITEABLE)
        for num in number
        for fortran in (0, _F)
    }
