"""Functions that users register: how they are called, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Function:
    """A function of values that a user has registered, with the types of its arguments and result.

    `call` gets one Python value for each argument. If `vectorized`, it gets one Arrow array for each
    argument, all of one length, and returns as many values: an Arrow array, or what Arrow makes an
    array of. `cost` compares functions: the conditions of a query with a cheaper function come first.
    """

    name: str
    call: Callable[..., Any]
    arguments: tuple[pa.DataType, ...]
    returns: pa.DataType
    vectorized: bool = False
    cost: float = 1.0

    def __call__(self, *values: Any) -> Any:
        """The value for one row."""
        if not self.vectorized:
            return self.call(*values)
        arrays = [pa.array([v], type_) for v, type_ in zip(values, self.arguments, strict=True)]
        return self.values(arrays)[0].as_py()

    def values(self, arrays: list[pa.Array]) -> pa.Array:
        """The values of a vectorized function for rows with these arguments."""
        found = self.call(*arrays)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            found = pa.array(found)
        if len(found) != len(arrays[0]):
            raise ValueError(f"{len(found)} values for {len(arrays[0])} rows")
        return found if found.type == self.returns else found.cast(self.returns)
