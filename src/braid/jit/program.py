"""The code of one predicate or writer: a list of operations, before it has the form of a language.

`codegen.py` turns an expression into a program, and `scalar_rules.py` says which operations each
function of the language consists of. Two renderers write a program down: `llvm_code.py` as LLVM IR,
`python_code.py` as Python. Programs are values: two expressions of one shape have equal programs.
"""

from __future__ import annotations

from typing import NamedTuple

from braid.algebra.types import Kind
from braid.jit.operations import HELPERS, OPERATIONS, REFUSE


class Variable(NamedTuple):
    """The result of an operation, or an argument of the function."""

    name: str


#: A variable, or a constant.
Operand = Variable | bool | int | float


class Instruction(NamedTuple):
    """An operation and its operands. Its result is `v` and the number of the instruction."""

    operation: str
    operands: tuple[Operand, ...]


class Program(NamedTuple):
    """A function: a predicate, or a writer, which also has the address of an output row."""

    writes: bool
    instructions: tuple[Instruction, ...]


class Code(NamedTuple):
    """Whether the value of an expression is NULL, and the value if it is not."""

    null: Operand
    value: Operand
    kind: Kind


INSTANCE, EVENT, PARAMETERS, STRINGS, OUTPUT = (Variable(name) for name in "iepso")

_LETTERS = {Kind.BOOLEAN: "b", Kind.FLOAT: "f"}


def zero(kind: Kind) -> Operand:
    if kind is Kind.FLOAT:
        return 0.0
    return False if kind is Kind.BOOLEAN else 0


class Builder:
    """The instructions of one program. The same operation on the same operands is done once."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[Instruction, Variable] = {}
        self._negations: dict[Operand, Operand] = {}

    def op(self, operation: str, *operands: Operand) -> Variable:
        assert operation in OPERATIONS or operation in HELPERS, operation
        instruction = Instruction(operation, operands)
        if instruction not in self._known:
            self._known[instruction] = self._append(instruction)
        return self._known[instruction]

    def store(self, operation: str, word: int, value: Operand) -> None:
        """Write a word of the output row."""
        self._append(Instruction(operation, (word, value)))

    def refuse(self, condition: Operand) -> None:
        """The predicate is not true if a condition is."""
        if condition is not False:
            self._append(Instruction(REFUSE, (condition,)))

    def _append(self, instruction: Instruction) -> Variable:
        self.instructions.append(instruction)
        return Variable(f"v{len(self.instructions) - 1}")

    # ---- truth values: constants among them are evaluated here ----

    def all_of(self, *parts: Operand) -> Operand:
        return self._combined("and", True, parts)

    def any_of(self, *parts: Operand) -> Operand:
        return self._combined("or", False, parts)

    def _combined(self, operation: str, neutral: bool, parts: tuple[Operand, ...]) -> Operand:
        result: Operand = neutral
        for part in dict.fromkeys(parts):
            if part is (not neutral):
                return part
            if part is not neutral:
                result = part if result is neutral else self.op(operation, result, part)
        return result

    def negated(self, part: Operand) -> Operand:
        if isinstance(part, bool):
            return not part
        if part not in self._negations:
            negation = self.op("not", part)
            self._negations[part], self._negations[negation] = negation, part
        return self._negations[part]

    def chosen(self, condition: Operand, then: Operand, otherwise: Operand, kind: Kind) -> Operand:
        if isinstance(condition, bool):
            return then if condition else otherwise
        if isinstance(then, Variable) and then == otherwise:
            return then
        return self.op(f"choose_{_LETTERS.get(kind, 'i')}", condition, then, otherwise)

    def integer(self, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
        """A choice between integers."""
        return self.chosen(condition, then, otherwise, Kind.INTEGER)

    def floating(self, condition: Operand, then: Operand, otherwise: Operand) -> Operand:
        """A choice between floats."""
        return self.chosen(condition, then, otherwise, Kind.FLOAT)
