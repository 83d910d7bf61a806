"""Records: named, typed fields of plain memory, for kernels and for Python.

A class of annotated fields describes how words lie in memory, as a struct does in C. An object of
the class is a *pointer* to such a record, in compiled kernels nothing but its address:

    @record
    class State(Record):
        next: i32
        edge: i32
        group: i64
        bound: i64

    state = State(base)[node]       # the record of that number behind an address
    if state.group == group:
        state.edge = edge           # two instructions when compiled

A field may be a number (`i64`, `i32`, `u8`, `f64`), a pointer to a record (the name of its class) or
to an array of numbers (`Words`, `Halves`, `Bytes`, `Floats`), or so many numbers or records in place
(`Annotated[Words, 4]`, `Annotated[Vector, 1]`). Narrow fields are read as whole words, so that what is computed with them has
one type. `pointer.address` is the address as an integer; 0 points to nothing. NumPy reads the same
memory by the names of fields: `np.zeros(8, State.dtype)["group"]`; `State.at(array)` points to it.

A record may extend another one: its fields come after those of the other.

A kernel whose parameter is annotated with a record takes a pointer to that record, or to one that
extends it, and nothing else;
Python may give an address to a kernel with a signature, in which the parameter is `State.type`.
With the compiler off every access is checked against the allocations that there are
(`allocations.py`): the interpreted lane of the tests is an address sanitizer.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from braid.jit import types
from braid.jit.allocations import array_allocated, check
from braid.jit.types import COMPILED as COMPILED


@dataclass(frozen=True)
class Number:
    """How a number lies in memory, and what it is in a kernel."""

    name: str
    size: int
    type: types.Type
    ctypes: Any

    def __repr__(self) -> str:
        return self.name


_I64 = Number("i64", 8, types.int64, ctypes.c_int64)
_I32 = Number("i32", 4, types.int64, ctypes.c_int32)
_U8 = Number("u8", 1, types.int64, ctypes.c_uint8)
_F64 = Number("f64", 8, types.float64, ctypes.c_double)

i64 = Annotated[int, _I64]
i32 = Annotated[int, _I32]
u8 = Annotated[int, _U8]
f64 = Annotated[float, _F64]


@dataclass(frozen=True)
class Field:
    """A field of a record: where it begins, and what it is.

    `number` says how it lies in memory. `target` is the class that a pointer points to. `inline`: so
    many elements are here, and the field is a pointer to them.
    """

    name: str
    offset: int
    number: Number
    target: type[Pointer] | None = None
    inline: int = 0


class Pointer:
    """What every pointer can do, to a record or to an array of numbers."""

    __slots__ = ("address",)

    #: How far one element is from the next.
    stride: ClassVar[int] = 8
    #: The type in signatures.
    type: ClassVar[Any] = None

    def __init__(self, address: Any = 0) -> None:
        self.address = int(address)

    @classmethod
    def at(cls, array: np.ndarray[Any, Any]) -> Self:
        """A pointer to an array, which must live as long as it is used."""
        if not COMPILED:
            array_allocated(array)
        return cls(array.ctypes.data)

    def __index__(self) -> int:
        return self.address

    def __int__(self) -> int:
        return self.address

    def __bool__(self) -> bool:
        return self.address != 0

    def __add__(self, size: Any) -> int:
        return self.address + int(size)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address:#x})"


class Record(Pointer):
    """A pointer to a record; `pointer[n]` points to the n-th one after it."""

    __slots__ = ()

    fields: ClassVar[dict[str, Field]] = {}
    #: The same fields for NumPy; pointers are integers.
    dtype: ClassVar[np.dtype[Any]]

    @classmethod
    def word(cls, name: str) -> int:
        """The number of the word that a field is."""
        return cls.fields[name].offset // 8

    def __getitem__(self, number: Any) -> Self:
        return type(self)(self.address + int(number) * self.stride)


class Numbers(Pointer):
    """A pointer to numbers; `pointer[n]` is the n-th of them, and can be set."""

    __slots__ = ()

    number: ClassVar[Number] = _I64

    def __getitem__(self, number: Any) -> Any:
        return _read(self.number, self.address + int(number) * self.stride)

    def __setitem__(self, number: Any, value: Any) -> None:
        _write(self.number, self.address + int(number) * self.stride, value)

    def after(self, number: Any) -> Self:
        """A pointer to the n-th number after this one."""
        return type(self)(self.address + int(number) * self.stride)


def _read(number: Number, address: int) -> Any:
    if not COMPILED:
        check(address, number.size)
    return number.ctypes.from_address(address).value


def _write(number: Number, address: int, value: Any) -> None:
    if not COMPILED:
        check(address, number.size)
    number.ctypes.from_address(address).value = float(value) if number is _F64 else int(value)


#: All classes of pointers, and who is told of a new one: the compiler, once it is loaded.
_declared: list[type[Pointer]] = []
_listeners: list[Callable[[type[Pointer]], None]] = []


def _declare(target: type[Pointer]) -> None:
    _declared.append(target)
    for listener in _listeners:
        listener(target)


def for_each_class(listener: Callable[[type[Pointer]], None]) -> None:
    """Call this with each class of pointers, now and when it is declared."""
    for target in _declared:
        listener(target)
    _listeners.append(listener)


def _array_of(number: Number, name: str, doc: str) -> Any:
    body = {"__slots__": (), "__doc__": doc, "__module__": __name__}
    made: Any = type(name, (Numbers,), {**body, "number": number, "stride": number.size})
    made.type = types.Pointer(made)
    _declare(made)
    return made


if typing.TYPE_CHECKING:
    Words = Numbers
    Halves = Numbers
    Bytes = Numbers
    Floats = Numbers
else:
    Words = _array_of(_I64, "Words", "A pointer to words of 64 bits.")
    Halves = _array_of(
        _I32, "Halves", "A pointer to words of 32 bits, which are read as whole ones."
    )
    Bytes = _array_of(_U8, "Bytes", "A pointer to bytes, which are read as whole words.")
    Floats = _array_of(_F64, "Floats", "A pointer to floats.")


# ---- classes of fields ----

_C = TypeVar("_C")


def record(cls: type[_C]) -> type[_C]:
    """Make a class of annotated fields a record: fields in order, each aligned to its size."""
    body = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    extended: Any = cls.__base__ if issubclass(cls, Record) else Record
    made: Any = type(cls.__name__, (extended,), {**body, "__slots__": ()})
    made.fields = dict(extended.fields)
    end = extended.stride if made.fields else 0
    for name, annotation in cls.__annotations__.items():
        assert not hasattr(extended, name), f"{name} is taken"
        end = _add_field(made, name, _resolved(annotation, cls, made), end)
    widest = max((field.number.size for field in made.fields.values()), default=8)
    made.stride = -(-end // widest) * widest
    made.dtype = _dtype(made)
    made.type = types.Pointer(made)
    _declare(made)
    return typing.cast(type[_C], made)


def _resolved(annotation: Any, cls: type, made: type) -> Any:
    if not isinstance(annotation, str):
        return annotation
    names = {**vars(sys.modules[cls.__module__]), cls.__name__: made}
    return eval(annotation, names)


def _add_field(made: Any, name: str, annotation: Any, end: int) -> int:
    """Where the next field may begin."""
    number, target, count = _I64, None, 0
    if isinstance(annotation, type) and issubclass(annotation, Pointer):
        target = annotation
    else:
        kind, extra = typing.get_args(annotation)
        if isinstance(extra, Number):
            number = extra
        else:
            target, number, count = (
                kind,
                kind.number if issubclass(kind, Numbers) else _I64,
                int(extra),
            )
    offset = -(-end // number.size) * number.size
    field = Field(name, offset, number, target, count)
    made.fields[name] = field
    setattr(made, name, _property(field))
    return offset + (count * target.stride if count and target else number.size)


def _dtype(made: Any) -> np.dtype[Any]:
    formats = [_format(field) for field in made.fields.values()]
    offsets = [field.offset for field in made.fields.values()]
    fields = {"names": list(made.fields), "formats": formats, "offsets": offsets}
    return np.dtype({**fields, "itemsize": made.stride})  # type: ignore[call-overload]


def _format(field: Field) -> Any:
    target = field.target
    if field.inline and target is not None and issubclass(target, Record):
        return (target.dtype, (field.inline,))
    one = np.dtype(field.number.ctypes)
    return (one, (field.inline,)) if field.inline else one


def _property(field: Field) -> property:
    number, target, offset = field.number, field.target, field.offset

    def get(self: Any) -> Any:
        if field.inline:
            assert target is not None
            return target(self.address + offset)
        value = _read(number, self.address + offset)
        return value if target is None else target(value)

    def put(self: Any, value: Any) -> None:
        assert not field.inline, f"{field.name} is in place and cannot be set"
        assert target is None or isinstance(value, target), f"{field.name} is a {target}"
        _write(number, self.address + offset, value)

    return property(get, put)


def filled(kind: type[Record], **given: Any) -> np.ndarray[Any, Any]:
    """Memory of one record with these fields, as an array of one element of its type.

    A field that is a pointer is given an array, which must live as long as the record is used; if the
    record has a field `<name>_length`, that becomes the length of the array. A record in place is given
    the array of its first field.
    """
    memory = np.zeros(1, kind.dtype)
    words, places = memory.view(np.int64), _places(kind)
    for name, value in given.items():
        place = places[name]
        if not isinstance(value, np.ndarray):
            words[place.word] = value
            continue
        if value.strides[0] != place.stride or not value.flags.c_contiguous:
            _check_elements(name, value, place.stride)
        words[place.word] = place.target.at(value).address
        if place.length >= 0:
            words[place.length] = len(value)
    return memory


class _Place(NamedTuple):
    """Where `filled` writes a field: words of the record, and what a pointer points to.

    `stride`: the bytes of one element. `length`: the word of `<name>_length`, or -1.
    """

    word: int
    target: Any
    stride: int
    length: int


@functools.cache
def _places(kind: type[Record]) -> dict[str, _Place]:
    """Of a record of whole words: looked up once, because frames are made for every batch."""
    found = {}
    for name, field in kind.fields.items():
        target, owner, offset = field.target, kind, field.offset
        key = name
        if field.inline and target is not None and issubclass(target, Record):
            key, first = next(iter(target.fields.items()))
            owner, target, offset = target, first.target, offset + first.offset
        assert field.number.size == 8, f"{name} is not a word"
        length = owner.fields.get(f"{key}_length")
        start = offset - owner.fields[key].offset
        at = -1 if length is None else (start + length.offset) // 8
        found[name] = _Place(offset // 8, target, 0 if target is None else target.stride, at)
    return found


def _check_elements(name: str, array: np.ndarray[Any, Any], stride: int) -> None:
    one = array.itemsize * math.prod(array.shape[1:])
    assert array.flags.c_contiguous, f"{name} has gaps"
    assert one == stride, f"elements of {name} have {one} bytes"


def pointer_parameters(function: Any) -> dict[int, type[Pointer]]:
    """The parameters of a function that are annotated as pointers, by place."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    found = {}
    for place, name in enumerate(names):
        annotation = function.__annotations__.get(name)
        if isinstance(annotation, str):
            annotation = function.__globals__.get(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Pointer):
            found[place] = annotation
    return found
