"""How long what members want may last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.operators.core.constants import Constants
from braid.operators.core.values import Words
from braid.plan.routes import Bound

#: Results may last as long as they want, or none may be: bounds of members and of pattern states.
UNBOUNDED, DEAD = -1, -2


def bound_of(bounds: Sequence[Bound], constants: Constants) -> Words:
    """How long results may last, for each member."""
    found: Words | None = None
    for bound in bounds:
        if isinstance(bound.constant, int):
            words = np.full(constants.count, bound.constant, np.int64)
        else:
            words = np.broadcast_to(constants.words(bound.constant), (constants.count,))
        words = words - int(bound.strict)
        found = words if found is None else np.minimum(found, words)
    if found is None:
        return np.full(constants.count, UNBOUNDED, np.int64)
    return np.where(found < 0, DEAD, found).astype(np.int64)
