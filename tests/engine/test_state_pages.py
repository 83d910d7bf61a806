"""What is saved is what changed."""

from __future__ import annotations

import numpy as np

from braid.engine.state_pages import PAGE, Pages, read_array


def test_only_changed_pages_are_put_again() -> None:
    pages, array = Pages(), np.arange(10 * PAGE // 8)
    pages.put_array("a", array)
    saved = pages.delta().puts
    assert len(saved) == 10
    array[3] = -1
    pages.put_array("a", array)
    delta = pages.delta()
    assert list(delta.puts) == ["a/0"]
    saved.update(delta.puts)
    assert np.array_equal(read_array(saved, "a", array.dtype, len(array)), array)


def test_what_is_no_longer_mentioned_is_removed() -> None:
    pages = Pages({"a/0": b"x", "b/0": b"y"})
    pages.put("a/0", b"x")
    delta = pages.delta()
    assert delta.puts == {}
    assert delta.removals == ["b/0"]


def test_an_array_that_shrinks_gives_its_pages_back() -> None:
    pages = Pages()
    pages.put_array("a", np.zeros(3 * PAGE // 8))
    pages.delta()
    pages.put_array("a", np.zeros(PAGE // 8))
    assert pages.delta().removals == ["a/1", "a/2"]
