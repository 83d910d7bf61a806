"""Memory that kernels share with Python."""

from __future__ import annotations

import numpy as np

from braid.jit.memory import address_of, resized_array


def test_an_array_is_resized_although_a_kernel_had_its_address() -> None:
    array = np.arange(4)
    address_of(array)
    array = resized_array(array, 6)
    assert array.tolist() == [0, 1, 2, 3, 0, 0]
    assert resized_array(array, 2).tolist() == [0, 1]
