"""`python -m benchmarks [CASE ...] --size small|full`: what `make bench` runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import cases
from benchmarks.harness import BenchmarkFailed, run_case
from benchmarks.show import show, write

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Braid.")
    parser.add_argument("case", nargs="*", help=f"of: {', '.join(cases.names())}; all without")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant is measured")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    unknown = [name for name in options.case if name not in cases.names()]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are: {', '.join(cases.names())}")
    console = Console() if sys.stdout.isatty() else Console(width=120)
    disagree = False
    for name in options.case or cases.names():
        case = cases.find(name)
        with console.status(name) as status:
            try:
                result = run_case(
                    case,
                    options.size,
                    rounds=options.rounds,
                    report=lambda text, n=name: status.update(f"{n}: {text}"),
                )
            except BenchmarkFailed as failure:
                console.print(f"{name} failed:\n{failure}", style="red", markup=False)
                return 1
        show(result, console)
        path = write(result, options.results)
        console.print(f"  written: {path.name}, {path.with_suffix('.png').name}\n")
        disagree |= not result.answers_agree
    return 1 if disagree else 0


if __name__ == "__main__":
    sys.exit(main())
