"""Which processors compiled kernels are made for, and which of them this machine is.

Kernels are built ahead for a few *targets*: `x86-64` and `x86-64-v3` (processors with AVX2, since
2013), or the generic processor of another architecture. The results of kernels do not depend on the
target: no instruction is used that rounds otherwise. What is compiled when it is needed is compiled
for the processor of the machine.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import platform
import sys
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np

#: The features that make a processor an x86-64-v3, by their names in LLVM.
_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "xsave")


def targets(machine: str = "") -> tuple[str, ...]:
    """The targets that kernels are built ahead for on an architecture, the best one first."""
    machine = (machine or platform.machine()).lower()
    if machine in ("x86_64", "amd64"):
        return "x86-64-v3", "x86-64"
    return ("generic",) if machine in ("aarch64", "arm64") else ()


def runs(target: str) -> bool:
    """Whether this machine can run what is compiled for a target."""
    return target in targets() and (target != "x86-64-v3" or all(map(_features().get, _V3)))


@functools.cache
def best_target() -> str:
    """The best target that this machine can run; empty if there is none."""
    return next(filter(runs, targets()), "")


@functools.cache
def host() -> str:
    """The processor of this machine, with what it can do."""
    able = ",".join(sorted(name for name, has in _features().items() if has))
    return f"{llvm.get_host_cpu_name()}:{able}"


@functools.cache
def _features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


@functools.cache
def versions() -> str:
    """What compiled code depends on besides its sources and the processor."""
    # Not imported: to import Numba takes longer than all that kernels need from it.
    numba = importlib.metadata.version("numba")
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    system = f"{sys.platform}-{platform.machine().lower()}"
    return f"{system}-{python}-numba{numba}-llvmlite{llvmlite.__version__}-numpy{np.__version__}"


@functools.cache
def numba_folder() -> Path:
    """Where Numba is installed."""
    spec = importlib.util.find_spec("numba")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])
