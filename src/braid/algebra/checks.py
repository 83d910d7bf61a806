"""What every operator checks of its expressions when it is built."""

from __future__ import annotations

from collections.abc import Mapping

from braid.algebra.expressions import Expression, Source, refs
from braid.algebra.schema import Schema


def check_refs(expression: Expression, sources: Mapping[Source, Schema]) -> None:
    """Every reference is to an attribute that its source has, with the type that it has there."""
    for ref in refs(expression):
        assert ref.source in sources, f"{ref} cannot be used here"
        schema = sources[ref.source]
        assert ref.name in schema, f"{ref.name} is not one of {schema.names}"
        assert schema.type_of(ref.name) == ref.type, f"{ref.name}: {ref.type}"
