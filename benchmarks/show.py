"""Results as a table on the screen, as JSON and as a plot."""

from __future__ import annotations

import statistics
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness import CaseResult


def show(result: CaseResult, console: Console) -> None:
    table = Table(title=f"{result.case} ({result.size})", title_justify="left")
    table.add_column("variant")
    for heading in ("seconds", "spread", "events", "events/s", "compile s", "register s"):
        table.add_column(heading, justify="right")
    table.add_column("state", justify="right")
    table.add_column("peak RSS", justify="right")
    for variant in result.variants:
        table.add_row(
            variant.name,
            f"{statistics.median(variant.seconds):.3f}",
            f"{min(variant.seconds):.3f}-{max(variant.seconds):.3f}",
            f"{variant.events:,}",
            f"{variant.events_per_s:,.0f}",
            f"{variant.compile_s:.2f}",
            f"{variant.register_s:.3f}",
            _bytes(variant.state_bytes) if variant.state_bytes else "-",
            _bytes(variant.peak_rss),
        )
    console.print(table)
    for key, value in result.ratios.items():
        low, high = result.spread[key]
        console.print(f"  {key}: [bold]{value:.3f}[/] ({low:.3f} to {high:.3f})", highlight=False)
    for variant in result.variants:
        for key, value in variant.extra.items():
            console.print(f"  {variant.name}: {key} = {value:,.6g}", highlight=False)
    for key, value in result.once.items():
        console.print(f"  {key} = {value:,.4g}", highlight=False)
    verdict = "[green]answers agree[/]" if result.answers_agree else "[red]ANSWERS DIFFER[/]"
    console.print(f"  {verdict}", highlight=False)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def write(result: CaseResult, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{result.case}-{result.size}.json"
    path.write_text(result.to_json() + "\n", encoding="utf-8")
    plot(result, path.with_suffix(".png"))
    return path


def plot(result: CaseResult, path: Path) -> None:
    """Events per second of each variant, the spread as bars, the ratios in the title."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 1.2 + 0.6 * len(result.variants)))
    names = [v.name for v in result.variants]
    rates = [v.events_per_s / 1e6 for v in result.variants]
    low = [r - v.events / max(v.seconds) / 1e6 for r, v in zip(rates, result.variants, strict=True)]
    high = [
        v.events / min(v.seconds) / 1e6 - r for r, v in zip(rates, result.variants, strict=True)
    ]
    axes.barh(names, rates, xerr=[low, high], color="#4878a8", capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel("million events/s")
    ratios = ", ".join(f"{key} = {value:.2f}" for key, value in result.ratios.items())
    axes.set_title(f"{result.case} ({result.size})\n{ratios}", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
