"""What is refused when users register functions."""

from __future__ import annotations

import pytest

from braid.errors import ConfigError
from braid.lang.bind.user_functions import Functions


@pytest.mark.parametrize("cost", [0, -1, float("nan"), float("inf")])
def test_a_cost_is_a_positive_number(cost: float) -> None:
    with pytest.raises(ConfigError, match="E157") as refused:
        Functions().register("f", abs, ["DOUBLE"], "DOUBLE", cost=cost)
    assert "cost must be a positive number" in str(refused.value)


def test_a_vectorized_function_needs_an_argument() -> None:
    with pytest.raises(ConfigError, match="E157"):
        Functions().register("f", lambda: 1, [], "DOUBLE", vectorized=True)
