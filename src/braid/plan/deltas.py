"""Delta channels: how a relation flows through the plan.

A relation flows through a *delta channel*: each row says at which instant copies of it come
(weight above 0) or go (below 0). The relation at an instant is the sum of all deltas up to it.
The weight is the last column.
"""

from __future__ import annotations

import pyarrow as pa

from braid.algebra.schema import Attribute, Schema
from braid.plan.specs import Shape

#: The column of a delta channel that says how many copies of a row come or go.
WEIGHT = "±"


#: The instant before time: what is there before the first event comes then, which is no news.
BEFORE = -(2**62) - 1


def with_weight(schema: Schema) -> Shape:
    """The delta channel of a relation."""
    return Shape(Schema((*schema, Attribute(WEIGHT, pa.int64()))))


def without_weight(shape: Shape) -> Schema:
    return Schema(tuple(a for a in shape.schema if a.name != WEIGHT))
