"""Types as users write them: DOUBLE, DECIMAL(10, 2), ARRAY<STRING>, STRUCT<a: INT>, MAP<K, V>."""

from __future__ import annotations

import pyarrow as pa

from braid.algebra.types import type_named, type_names
from braid.lang.parse import syntax
from braid.lang.parse.problems import Problem, alternatives

_NESTED = ("DECIMAL", "ARRAY", "MAP", "STRUCT")


def bind_type(node: syntax.TypeName) -> pa.DataType:
    name = node.name.name.upper()
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        return _decimal(node)
    if name in ("ARRAY", "MAP", "STRUCT"):
        return _nested(name, node)
    if name == "VARCHAR" and len(node.sizes) == 1 and not node.fields:
        return type_named(name)
    known = type_named(name)
    if known is None:
        hint = alternatives("types", name, (*type_names(), *_NESTED))
        raise Problem("E121", f"there is no type {node.name.name!r}", node.name.at, hint)
    if node.sizes or node.fields:
        raise Problem("E121", f"{name} takes no parameters", node.at)
    return known


def _decimal(node: syntax.TypeName) -> pa.DataType:
    if node.fields or len(node.sizes) > 2:
        raise Problem("E121", "write DECIMAL(digits, digits after the point)", node.at)
    precision, scale = (*node.sizes, *(10, 0)[len(node.sizes) :])
    if not (1 <= precision <= 38 and scale <= precision):
        message = (
            f"DECIMAL({precision}, {scale}): at most 38 digits, including those after the point"
        )
        raise Problem("E121", message, node.at)
    return pa.decimal128(precision, scale)


def _nested(name: str, node: syntax.TypeName) -> pa.DataType:
    wanted = {"ARRAY": "ARRAY<T>", "MAP": "MAP<K, V>", "STRUCT": "STRUCT<a: T, ...>"}[name]
    types = [bind_type(type_) for _, type_ in node.fields]
    names = [ident.name if ident else None for ident, _ in node.fields]
    if node.sizes or not types:
        raise Problem("E121", f"write {wanted}", node.at)
    if name == "STRUCT":
        if None in names or len(set(names)) < len(names):
            raise Problem("E121", "each field of a STRUCT has a name of its own", node.at)
        return pa.struct(list(zip(names, types, strict=True)))
    if any(names) or len(types) != {"ARRAY": 1, "MAP": 2}[name]:
        raise Problem("E121", f"write {wanted}", node.at)
    return pa.list_(types[0]) if name == "ARRAY" else pa.map_(*types)
