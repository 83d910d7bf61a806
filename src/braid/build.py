"""Builds what Braid otherwise computes when it first needs it: `python -m braid.build`.

It writes compiled kernels and the tables of the grammar into the package. `make setup` runs it for the
processor of the machine, `make wheel` for all processors of the architecture.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from braid.jit.compiled import build, cpu, store
from braid.lang.parse.parser import build_tables


def main(arguments: Sequence[str] | None = None) -> None:
    """Build, and say what has been written."""
    parser = argparse.ArgumentParser(prog="python -m braid.build", description=__doc__)
    parser.add_argument(
        "--target",
        choices=("host", "all", *cpu.targets()),
        default="host",
        help="the processors that kernels are built for: the best that this machine is, or all",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    begin = time.monotonic()
    targets = {"host": (cpu.best_target(),), "all": cpu.targets()}.get(
        given.target, (given.target,)
    )
    written: list[Path] = [build_tables()]
    written += build.build(store.PACKS, [target for target in targets if target], given.processes)
    for path in written:
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    print(f"built in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
