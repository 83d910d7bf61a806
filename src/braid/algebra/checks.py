"""Checks that every operator makes of its expressions when it is built."""

from __future__ import annotations

from collections.abc import Mapping

from braid.algebra.expressions import Expression, Source, refs
from braid.algebra.schema import Schema


def check_refs(expression: Expression, sources: Mapping[Source, Schema]) -> None:
    """Check that every reference is to an attribute of its source, with its type there."""
    for ref in refs(expression):
        assert ref.source in sources, f"{ref} cannot be used here"
        schema = sources[ref.source]
        assert ref.name in schema, f"{ref.name} is not one of {schema.names}"
        assert schema.type_of(ref.name) == ref.type, f"{ref.name}: {ref.type}"
