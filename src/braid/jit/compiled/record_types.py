"""What pointers to records are in compiled kernels: the types, fields and items, for Numba."""

from __future__ import annotations

import functools
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.imputils import (
    lower_builtin,
    lower_cast,
    lower_getattr_generic,
    lower_setattr_generic,
)
from numba.core.typeconv import Conversion
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import (
    NativeValue,
    box,
    models,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)

from braid.jit.records import Field, Number, Pointer, Record, for_each_class

#: How numbers lie in memory.
_LLVM = {"i64": ir.IntType(64), "i32": ir.IntType(32), "u8": ir.IntType(8), "f64": ir.DoubleType()}


def _numba(number: Number) -> Any:
    """What a number is in a kernel."""
    return getattr(types, number.type.name)


class PointerType(types.Type):
    """The type of pointers of one class."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(name=f"{target.__module__}.{target.__qualname__}*")

    def can_convert_to(self, typing_context: Any, other: Any) -> Any:
        """A pointer is an address for whoever asks for one, and points to what its record extends."""
        extended = isinstance(other, PointerType) and issubclass(self.target, other.target)
        return Conversion.safe if extended or other == types.int64 else None

    def can_convert_from(self, typing_context: Any, other: Any) -> Any:
        """Python may give an address for a pointer; inside kernels nothing is cast to one."""
        return Conversion.safe if other == types.int64 else None


class RecordType(PointerType):
    """Of pointers to records: their fields are attributes."""


class NumbersType(PointerType):
    """Of pointers to numbers: these are items."""


@functools.cache
def pointer_type(target: type[Pointer]) -> PointerType:
    """The type of pointers of a class."""
    return RecordType(target) if issubclass(target, Record) else NumbersType(target)


for _type in (RecordType, NumbersType):

    @register_model(_type)
    class _PointerModel(models.PrimitiveModel):
        def __init__(self, manager: Any, type_: Any) -> None:
            super().__init__(manager, type_, ir.IntType(64))


@lower_cast(RecordType, RecordType)
@lower_cast(RecordType, types.Integer)
@lower_cast(NumbersType, types.Integer)
def _cast_pointer(_context: Any, _builder: Any, _source: Any, _target: Any, value: Any) -> Any:
    return value


@typeof_impl.register(Pointer)
def _typeof_pointer(value: Pointer, _context: Any) -> Any:
    return pointer_type(type(value))


@unbox(RecordType)
@unbox(NumbersType)
def _unbox_pointer(type_: Any, value: Any, c: Any) -> Any:
    whole = c.pyapi.number_long(value)
    address = c.pyapi.long_as_longlong(whole)
    c.pyapi.decref(whole)
    return NativeValue(address, is_error=c.pyapi.c_api_error())


@box(RecordType)
@box(NumbersType)
def _box_pointer(_type: Any, value: Any, c: Any) -> Any:
    return c.pyapi.long_from_longlong(value)


def _field_type(field: Field) -> Any:
    return _numba(field.number) if field.target is None else pointer_type(field.target)


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, pointer: Any, name: str) -> Any:
        if name == "address":
            return types.int64
        field = pointer.target.fields.get(name)
        return None if field is None else _field_type(field)


@infer_getattr
class _NumbersAttributes(AttributeTemplate):
    key = NumbersType

    def generic_resolve(self, pointer: Any, name: str) -> Any:
        if name == "address":
            return types.int64
        if name == "after":
            return types.BoundFunction(_After, pointer)
        return None


class _After(AbstractTemplate):
    key = "after"

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(self.this, types.int64, recvr=self.this) if len(args) == 1 else None


@lower_builtin("after", NumbersType, types.Integer)
def _after(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _element(builder, args[0], args[1], sig.args[0].target.stride)


def _load(builder: Any, number: Number, place: Any) -> Any:
    value = builder.load(builder.inttoptr(place, _LLVM[number.name].as_pointer()))
    if number.name == "i32":
        return builder.sext(value, ir.IntType(64))
    return builder.zext(value, ir.IntType(64)) if number.name == "u8" else value


def _store(builder: Any, number: Number, place: Any, value: Any) -> None:
    if number.size < 8:
        value = builder.trunc(value, _LLVM[number.name])
    builder.store(value, builder.inttoptr(place, _LLVM[number.name].as_pointer()))


def _element(builder: Any, base: Any, index: Any, stride: int) -> Any:
    return builder.add(base, builder.mul(index, ir.Constant(ir.IntType(64), stride)))


def _place(builder: Any, base: Any, offset: int) -> Any:
    return builder.add(base, ir.Constant(ir.IntType(64), offset)) if offset else base


@lower_getattr_generic(RecordType)
def _get_field(_context: Any, builder: Any, type_: Any, pointer: Any, name: str) -> Any:
    if name == "address":
        return pointer
    field = type_.target.fields[name]
    place = _place(builder, pointer, field.offset)
    return place if field.inline else _load(builder, field.number, place)


@lower_getattr_generic(NumbersType)
def _get_address(_context: Any, _builder: Any, _type: Any, pointer: Any, _name: str) -> Any:
    return pointer


@lower_setattr_generic(RecordType)
def _set_field(context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    field = sig.args[0].target.fields[name]
    assert not field.inline, f"{name} is in place and cannot be set"
    value = context.cast(builder, args[1], sig.args[1], _field_type(field))
    _store(builder, field.number, _place(builder, args[0], field.offset), value)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        pointer, index = args
        if not isinstance(index, types.Integer):
            return None
        if isinstance(pointer, RecordType):
            return signature(pointer, pointer, types.int64)
        if isinstance(pointer, NumbersType):
            return signature(_numba(pointer.target.number), pointer, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        pointer, index, value = args
        if isinstance(pointer, NumbersType) and isinstance(index, types.Integer):
            number = pointer.target.number
            if self.context.can_convert(value, _numba(number)) is not None:
                return signature(types.none, pointer, types.int64, _numba(number))
        return None


@lower_builtin(operator.getitem, RecordType, types.Integer)
def _get_record(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _element(builder, args[0], args[1], sig.args[0].target.stride)


@lower_builtin(operator.getitem, NumbersType, types.Integer)
def _get_number(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    target = sig.args[0].target
    return _load(builder, target.number, _element(builder, args[0], args[1], target.stride))


@lower_builtin(operator.setitem, NumbersType, types.Integer, types.Any)
def _set_number(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    target = sig.args[0].target
    place = _element(builder, args[0], args[1], target.stride)
    _store(builder, target.number, place, args[2])
    return context.get_dummy_value()


def _comparison(function: Any, how: str) -> None:
    @infer_global(function)
    class Compare(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            same = len(args) == 2 and args[0] == args[1]
            return (
                signature(types.boolean, *args)
                if same and isinstance(args[0], PointerType)
                else None
            )

    def compare(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.icmp_unsigned(how, *args)

    for type_ in (RecordType, NumbersType):
        lower_builtin(function, type_, type_)(compare)


_comparison(operator.eq, "==")
_comparison(operator.ne, "!=")


def _make_callable(target: type[Pointer]) -> None:
    """`target(address)` inside kernels."""

    @type_callable(target)
    def type_pointer(_context: Any) -> Any:
        def typer(address: Any) -> Any:
            known = isinstance(address, types.Integer | PointerType)
            return pointer_type(target) if known else None

        return typer

    @lower_builtin(target, types.Integer)
    @lower_builtin(target, RecordType)
    @lower_builtin(target, NumbersType)
    def make(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.cast(builder, args[0], sig.args[0], types.int64)


def register_records() -> None:
    """Make the classes of records known to the compiler, those too that are declared later."""
    for_each_class(_make_callable)
