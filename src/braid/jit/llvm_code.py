"""Programs as LLVM IR, compiled in a few milliseconds without the front end of a compiler.

A function has Numba's calling convention: it returns a status and writes its result to the address
that is its first argument. So kernels call it like a function that Numba compiled.

Functions wait until a kernel first asks for the address of one of them. All that wait then are
compiled together, as modules of up to `MOST` functions: the functions of a registration share the
fixed costs. Nothing is written to disk. A module is freed when none of its functions is in use, so
memory is bounded by the functions in use and those that are in a module with one.
"""

from __future__ import annotations

import functools
import os
import struct
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import llvmlite.binding as llvm

from braid.jit.operations import HELPERS, OPERATIONS, REFUSE
from braid.jit.program import Instruction, Operand, Program, Variable

#: The most functions in a module: what lives as long as one of them.
MOST = 64

_TYPES = {"b": "i1", "i": "i64", "f": "double"}
#: How a result is in memory. Numba keeps a truth value in a byte.
_STORED = _TYPES | {"b": "i8"}


class NativeFunction:
    """A compiled function, known to kernels by its address."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._at = 0
        self._module: _Module | None = None

    @property
    def at(self) -> int:
        """The address of the code. It is valid as long as this object lives."""
        if not self.is_linked:
            _compile_waiting()
        return self._at

    @property
    def is_linked(self) -> bool:
        return self._at != 0

    def link(self, module: _Module, at: int) -> None:
        self._module, self._at = module, at


class _Module:
    """Machine code of some functions, at `addresses`. It goes when nobody has it any more."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        context = llvm.create_context()
        module = llvm.parse_assembly(text, context)
        target, cpu, features = _host()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
        _optimize(module, machine)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        self.addresses = [int(engine.get_function_address(name)) for name in names]
        # The engine has the code; what the code was made from takes more memory.
        engine.remove_module(module)
        module.close()
        context.close()
        weakref.finalize(self, engine.close).atexit = False


_lock = threading.RLock()
_functions: weakref.WeakValueDictionary[Program, NativeFunction] = weakref.WeakValueDictionary()
_waiting: list[weakref.ref[NativeFunction]] = []


def _after_fork() -> None:
    """In the child nobody holds the lock, whoever held it in the parent."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def native(program: Program) -> NativeFunction:
    """The function of a program, which all of its uses share."""
    with _lock:
        found = _functions.get(program)
        if found is None:
            found = _functions[program] = NativeFunction(program)
            _waiting.append(weakref.ref(found))
        return found


def _compile_waiting() -> None:
    with _lock:
        functions = [f for each in _waiting if (f := each()) is not None and not f.is_linked]
        # The functions that do nothing live as long as the process, and keep no others.
        _compile([f for f in functions if not f.program.instructions])
        others = [f for f in functions if f.program.instructions]
        for start in range(0, len(others), MOST):
            _compile(others[start : start + MOST])
        _waiting.clear()


def _compile(functions: Sequence[NativeFunction]) -> None:
    if not functions:
        return
    names = [f"generated{n}" for n in range(len(functions))]
    programs = [function.program for function in functions]
    module = _Module(module_text(programs, names), names)
    for function, at in zip(functions, module.addresses, strict=True):
        function.link(module, at)


def module_text(programs: Sequence[Program], names: Sequence[str]) -> str:
    """LLVM IR of some functions, with the addresses of the helpers that they call."""
    used = {i.operation for p in programs for i in p.instructions if i.operation in HELPERS}
    places = [
        f"@{name} = internal constant i64 {HELPERS[name].kernel.at}\n" for name in sorted(used)
    ]
    return "".join([*places, *(definition(p, n) for p, n in zip(programs, names, strict=True))])


def definition(program: Program, name: str) -> str:
    """LLVM IR of one function."""
    arguments = "iepso" if program.writes else "ieps"
    given = "".join(f", i64 %{a}" for a in arguments)
    lines = [f"define i32 @{name}(ptr %result, ptr %raised{given}) {{", "entry:"]
    lines += [f"  %{a}.row = inttoptr i64 %{a} to ptr" for a in arguments]
    lines += _slots(program)
    lines += [line if line.endswith(":") else f"  {line}" for line in _body(program)]
    if not program.writes:
        lines += ["  store i8 1, ptr %result", "  ret i32 0"]
        lines += ["refused:", "  store i8 0, ptr %result"]
    lines += ["  ret i32 0", "}"]
    return "\n".join(lines) + "\n"


def _slots(program: Program) -> list[str]:
    """Places for the results of helpers."""
    results = {HELPERS[i.operation].result for i in program.instructions if i.operation in HELPERS}
    slots = [f"  %slot.{letter} = alloca {_STORED[letter]}" for letter in sorted(results)]
    return [*slots, "  %slot.raised = alloca ptr"] if slots else []


def _body(program: Program) -> Iterator[str]:
    block = "entry"
    for number, instruction in enumerate(program.instructions):
        name = f"v{number}"
        if instruction.operation == REFUSE:
            (condition,) = instruction.operands
            yield f"br i1 {_operand(condition, 'b')}, label %refused, label %{name}.on"
            yield f"{name}.on:"
            block = f"{name}.on"
        elif instruction.operation in HELPERS:
            yield from _call(instruction, name, block)
            block = f"{name}.after"
        else:
            operation = OPERATIONS[instruction.operation]
            operands = _operands(instruction.operands, operation.arguments)
            yield from operation.llvm.format(*operands, r=f"%{name}").split("\n")


def _call(instruction: Instruction, name: str, block: str) -> Iterator[str]:
    """Call a helper, unless the first operand is true."""
    helper = HELPERS[instruction.operation]
    unless, *given = instruction.operands
    operands = _operands(given, helper.arguments)
    typed = "".join(f", {_TYPES[t]} {o}" for t, o in zip(helper.arguments, operands, strict=True))
    slot, type_, stored = f"%slot.{helper.result}", _TYPES[helper.result], _STORED[helper.result]
    yield f"br i1 {_operand(unless, 'b')}, label %{name}.after, label %{name}.call"
    yield f"{name}.call:"
    yield f"%{name}.kernel = load ptr, ptr @{instruction.operation}"
    yield f"%{name}.status = call i32 %{name}.kernel(ptr {slot}, ptr %slot.raised{typed})"
    yield f"%{name}.stored = load {stored}, ptr {slot}"
    read = "trunc i8" if helper.result == "b" else f"bitcast {stored}"
    yield f"%{name}.value = {read} %{name}.stored to {type_}"
    yield f"br label %{name}.after"
    yield f"{name}.after:"
    nothing = {"b": "false", "i": "0", "f": "0.0"}[helper.result]
    yield f"%{name} = phi {type_} [{nothing}, %{block}], [%{name}.value, %{name}.call]"


def _operands(operands: Sequence[Operand], types: str) -> list[str]:
    return [_operand(operand, type_) for operand, type_ in zip(operands, types, strict=True)]


def _operand(operand: Operand, type_: str) -> str:
    if isinstance(operand, Variable):
        return f"%{operand.name}.row" if type_ == "r" else f"%{operand.name}"
    if type_ == "b":
        return "true" if operand else "false"
    if type_ == "f":
        return f"0x{struct.pack('>d', operand).hex()}"
    return str(int(operand))


# ---- the compiler ----------------------------------------------------------------------------


@functools.cache
def _host() -> tuple[Any, str, str]:
    """LLVM's target of this machine, with the name and the features of its processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), features


def _optimize(module: Any, machine: Any) -> None:
    """The passes that matter for code without loops, whose repetitions are already removed."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
