"""How long what members want may last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.operators.core.constants import Constants
from braid.operators.core.kernels.instances import DEAD
from braid.operators.core.values import Words
from braid.plan.routes import Bound


def bound_of(bounds: Sequence[Bound], constants: Constants) -> Words:
    """How long results may last, for each member: -1 without a bound, DEAD if none may."""
    found: Words | None = None
    for bound in bounds:
        if isinstance(bound.constant, int):
            words = np.full(constants.count, bound.constant, np.int64)
        else:
            words = np.broadcast_to(constants.words(bound.constant), (constants.count,))
        words = words - int(bound.strict)
        found = words if found is None else np.minimum(found, words)
    if found is None:
        return np.full(constants.count, -1, np.int64)
    return np.where(found < 0, DEAD, found).astype(np.int64)
