"""The operations that generated code consists of, each as LLVM IR and as Python.

Types are letters: `b` a truth value, `i` a word, `f` a float, `r` the address of a row. Both forms of
an operation compute the same. None of them can fail, whatever the values of its operands, except that
a divisor must not be 0 and a float that becomes a word must fit in it. Python's integers don't
wrap around, so what an overflow is checked for may be another number than in LLVM's form: the rules
don't use it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from braid.jit import helpers


class Operation(NamedTuple):
    """`{0}`, `{1}`, ... are the operands. In LLVM IR `{r}` is the name of the result."""

    result: str
    arguments: str
    llvm: str
    python: str


class Helper(NamedTuple):
    """A kernel that generated code calls, unless its first operand, a truth value, is true."""

    result: str
    arguments: str
    kernel: Any


#: Ends a predicate that is not true: the instruction has one operand, the condition for it.
REFUSE = "refuse"


def _load(type_: str) -> str:
    return f"{{r}}.at = getelementptr i64, ptr {{0}}, i64 {{1}}\n{{r}} = load {type_}, ptr {{r}}.at"


def _store(type_: str) -> str:
    return f"{{r}}.at = getelementptr i64, ptr %o.row, i64 {{0}}\nstore {type_} {{1}}, ptr {{r}}.at"


def _plain(result: str, arguments: str, llvm: str, python: str) -> Operation:
    return Operation(result, arguments, f"{{r}} = {llvm}", python)


def _compared(letter: str, llvm: str, python: str) -> Operation:
    return _plain("b", 2 * letter, f"{llvm} {{0}}, {{1}}", f"{{0}} {python} {{1}}")


def _computed(letter: str, llvm: str, python: str) -> Operation:
    return _plain(letter, 2 * letter, f"{llvm} {{0}}, {{1}}", f"{{0}} {python} {{1}}")


def _choice(letter: str, type_: str) -> Operation:
    llvm = f"select i1 {{0}}, {type_} {{1}}, {type_} {{2}}"
    return _plain(letter, f"b{letter}{letter}", llvm, "{1} if {0} else {2}")


def _overflow(function: str, python: str) -> Operation:
    pair = "{{i64, i1}}"
    llvm = (
        f"{{r}}.pair = call {pair} @llvm.{function}.with.overflow.i64(i64 {{0}}, i64 {{1}})\n"
        f"{{r}} = extractvalue {pair} {{r}}.pair, 1"
    )
    return Operation("b", "ii", llvm, f"overflows({{0}} {python} {{1}})")


def _of_float(function: str, arguments: str = "f") -> Operation:
    """A function of the C library."""
    given = ", ".join(f"double {{{n}}}" for n in range(len(arguments)))
    llvm = f"call double @llvm.{function}.f64({given})"
    return _plain("f", arguments, llvm, f"{function}({given.replace('double ', '')})")


OPERATIONS: dict[str, Operation] = {
    "load_int": Operation("i", "ri", _load("i64"), "load_int({0}, {1})"),
    "load_float": Operation("f", "ri", _load("double"), "load_float({0}, {1})"),
    "store_int": Operation("", "ii", _store("i64"), "store_int(o, {0}, {1})"),
    "store_float": Operation("", "if", _store("double"), "store_float(o, {0}, {1})"),
    "bit": Operation(
        "b",
        "ii",
        "{r}.low = lshr i64 {0}, {1}\n{r} = trunc i64 {r}.low to i1",
        "bool({0} >> {1} & 1)",
    ),
    # Truth values.
    "and": _computed("b", "and i1", "and"),
    "or": _computed("b", "or i1", "or"),
    "not": _plain("b", "b", "xor i1 {0}, true", "not {0}"),
    "eq_b": _compared("b", "icmp eq i1", "=="),
    "lt_b": _compared("b", "icmp ult i1", "<"),
    "choose_b": _choice("b", "i1"),
    # Words.
    "add_i": _computed("i", "add i64", "+"),
    "sub_i": _computed("i", "sub i64", "-"),
    "mul_i": _computed("i", "mul i64", "*"),
    "div_i": _plain("i", "ii", "sdiv i64 {0}, {1}", "truncated({0}, {1})"),
    "rem_i": _plain("i", "ii", "srem i64 {0}, {1}", "{0} - truncated({0}, {1}) * {1}"),
    "and_i": _computed("i", "and i64", "&"),
    "or_i": _computed("i", "or i64", "|"),
    "eq_i": _compared("i", "icmp eq i64", "=="),
    "lt_i": _compared("i", "icmp slt i64", "<"),
    "choose_i": _choice("i", "i64"),
    "add_overflows": _overflow("sadd", "+"),
    "sub_overflows": _overflow("ssub", "-"),
    "mul_overflows": _overflow("smul", "*"),
    # Floats.
    "add_f": _computed("f", "fadd double", "+"),
    "sub_f": _computed("f", "fsub double", "-"),
    "mul_f": _computed("f", "fmul double", "*"),
    "div_f": _computed("f", "fdiv double", "/"),
    "neg_f": _plain("f", "f", "fneg double {0}", "-{0}"),
    "eq_f": _compared("f", "fcmp oeq double", "=="),
    "lt_f": _compared("f", "fcmp olt double", "<"),
    "le_f": _compared("f", "fcmp ole double", "<="),
    "eq_or_nan": _plain("b", "ff", "fcmp ueq double {0}, {1}", "not ({0} < {1} or {0} > {1})"),
    "not_ge_f": _plain("b", "ff", "fcmp ult double {0}, {1}", "not {0} >= {1}"),
    "is_nan": _plain("b", "f", "fcmp uno double {0}, {0}", "{0} != {0}"),
    "choose_f": _choice("f", "double"),
    "fmod": _plain("f", "ff", "frem double {0}, {1}", "fmod({0}, {1})"),
    **{
        name: _of_float(name)
        for name in ("fabs", "ceil", "floor", "sqrt", "exp", "log", "log10", "log2")
    },
    "pow": _of_float("pow", "ff"),
    "round_to_single": Operation(
        "f",
        "f",
        "{r}.single = fptrunc double {0} to float\n{r} = fpext float {r}.single to double",
        "single({0})",
    ),
    # Conversions.
    "bool_to_int": _plain("i", "b", "zext i1 {0} to i64", "int({0})"),
    "bool_to_float": _plain("f", "b", "uitofp i1 {0} to double", "float({0})"),
    "int_to_float": _plain("f", "i", "sitofp i64 {0} to double", "float({0})"),
    "float_to_int": _plain("i", "f", "fptosi double {0} to i64", "int({0})"),
}

HELPERS: dict[str, Helper] = {
    "string_compare": Helper("i", "iii", helpers.compare),
    "string_length": Helper("i", "ii", helpers.length),
    "string_contains": Helper("b", "iii", helpers.contains),
    "string_starts_with": Helper("b", "iii", helpers.starts_with),
    "string_ends_with": Helper("b", "iii", helpers.ends_with),
    "string_like": Helper("b", "iii", helpers.like),
    "round_half_up": Helper("f", "fi", helpers.round_half_up),
}
