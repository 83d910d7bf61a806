"""String patterns by automaton against Python's own functions and the repository's LIKE."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from braid.jit.runtime import address
from braid.jit.strings import string_like
from braid.operators.core.values import Strings
from braid.operators.select.string_patterns import PatternSet, longest_literal

COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"
KINDS = ["contains", "starts_with", "ends_with", "like"]

texts = st.text("abé€", max_size=6)
pattern_texts = st.text("abé€%_\\", max_size=5)


def like(text: str, pattern: str) -> bool:
    strings = Strings()
    codes = [int(strings.codes(pa.array([each], pa.string()))[0]) for each in (text, pattern)]
    return bool(string_like(address(strings.description), *codes))


def truth(kind: str, text: str, pattern: str) -> bool:
    return {
        "contains": lambda: pattern in text,
        "starts_with": lambda: text.startswith(pattern),
        "ends_with": lambda: text.endswith(pattern),
        "like": lambda: like(text, pattern),
    }[kind]()


def codes_of(strings: Strings, values: list[str]) -> np.ndarray:
    return strings.codes(pa.array(values, pa.string()))


@settings(max_examples=60 if COMPILED else 10)
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), pattern_texts), max_size=12),
    st.lists(texts, min_size=1, max_size=8),
)
def test_as_python_has_it(wanted: list[tuple[str, str]], shown: list[str]) -> None:
    patterns, strings = PatternSet(), Strings()
    numbers = {each: patterns.add(*each) for each in wanted}
    codes = codes_of(strings, shown)
    patterns.refresh(strings, codes)
    for text, code in zip(shown, codes.tolist(), strict=True):
        expected = sorted(n for each, n in numbers.items() if truth(each[0], text, each[1]))
        assert patterns.matching(code).tolist() == expected


class Churn(RuleBasedStateMachine):
    """Patterns and texts come and go, and codes may change their meaning."""

    def __init__(self) -> None:
        super().__init__()
        self.patterns, self.strings = PatternSet(), Strings()
        self.live: dict[int, tuple[str, str]] = {}
        self.uses: dict[int, int] = {}

    @rule(kind=st.sampled_from(KINDS), texts=st.lists(pattern_texts, min_size=1, max_size=30))
    def add(self, kind: str, texts: list[str]) -> None:
        for text in texts:
            number = self.patterns.add(kind, text)
            assert self.live.get(number, (kind, text)) == (kind, text)
            self.live[number] = (kind, text)
            self.uses[number] = self.uses.get(number, 0) + 1

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        for number in data.draw(st.lists(st.sampled_from(sorted(self.live)), unique=True)):
            self.patterns.remove(number)
            self.uses[number] -= 1
            if not self.uses[number]:
                del self.live[number]

    @rule()
    def renumber(self) -> None:
        self.strings = Strings()
        self.patterns.forget()

    @rule(shown=st.lists(texts, min_size=1, max_size=6))
    def scan(self, shown: list[str]) -> None:
        codes = codes_of(self.strings, shown)
        self.patterns.refresh(self.strings, codes)
        for text, code in zip(shown, codes.tolist(), strict=True):
            expected = sorted(n for n, each in self.live.items() if truth(each[0], text, each[1]))
            assert self.patterns.matching(code).tolist() == expected
        assert len(self.patterns) == len(self.live)


Churn.TestCase.settings = settings(
    max_examples=25 if COMPILED else 4, stateful_step_count=15 if COMPILED else 6
)
TestChurn = Churn.TestCase


def test_a_pattern_has_one_number_for_as_long_as_it_is_used() -> None:
    patterns = PatternSet()
    first = patterns.add("contains", "x")
    assert patterns.add("contains", "x") == first
    assert patterns.add("starts_with", "x") != first
    patterns.remove(first)
    assert len(patterns) == 2
    patterns.remove(first)
    assert len(patterns) == 1


def test_numbers_and_memory_come_back() -> None:
    patterns, strings = PatternSet(), Strings()
    codes = codes_of(strings, ["word 17 and more", "nothing"])
    numbers = [patterns.add("contains", f"word {k}") for k in range(500)]
    patterns.refresh(strings, codes)
    full = patterns.nbytes
    for number in numbers[1:]:
        patterns.remove(number)
    patterns.refresh(strings, codes)
    assert patterns.nbytes < full / 4
    again = patterns.add("contains", "more")
    assert again < 500
    patterns.refresh(strings, codes)
    assert patterns.matching(int(codes[0])).tolist() == [again]


def test_what_is_no_code_is_passed_over() -> None:
    patterns, strings = PatternSet(), Strings()
    patterns.add("like", "%")
    patterns.refresh(strings, np.array([-(2**63), 5]))
    codes = codes_of(strings, ["a"])
    patterns.refresh(strings, codes)
    assert patterns.matching(int(codes[0])).tolist() == [0]


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("abc", "abc"),
        ("a%bcd_e", "bcd"),
        ("%", ""),
        ("_\\%\\_x%", "%_x"),
        ("a\\", "a\\"),
        ("\\\\a", "\\a"),
    ],
)
def test_longest_literal(pattern: str, literal: str) -> None:
    assert longest_literal(pattern.encode()) == literal.encode()
