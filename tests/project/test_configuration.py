"""The table of options in docs/configuration.md is the one that the fields of `Options` give."""

from __future__ import annotations

from typing import Any

from braid.engine.options import Option, all_options
from tests.project import markdown

PAGE = markdown.ROOT / "docs" / "configuration.md"
HEAD = (
    "| option | what it does | takes | example | default | job file | error | after a restart |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def code(value: Any) -> str:
    """A value as Python has it."""
    return "`" + repr(value).replace("'", '"') + "`"


def row(name: str, option: Option[Any, Any]) -> str:
    error = option.code
    if option.code_in_file is not None:
        error += f" ({option.code_in_file} in a job file)"
    where = f"`[{option.table}]`" + (", `Session` only" if option.session_only else "")
    restart = "may change" if option.fixed is None else f"stays ({option.fixed})"
    cells = (f"`{name}`", option.doc, option.takes, code(option.example), code(option.default))
    return f"| {' | '.join((*cells, where, error, restart))} |"


def test_the_table_has_every_option_as_it_is() -> None:
    wanted = "\n".join([*HEAD, *(row(name, option) for name, option in all_options().items())])
    assert wanted in PAGE.read_text(encoding="utf-8"), f"the table should be:\n\n{wanted}"
