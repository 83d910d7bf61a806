"""The statements of docs/language.md load as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from braid.lang import Catalog, load

PAGE = Path(__file__).parents[2] / "docs" / "language.md"


def test_the_page_is_one_file_of_statements() -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    known = Catalog()
    loaded = load("\n".join(blocks), known, name="language.cel")
    declared = {"Stock", "Outage", "Reading", "Click", "Orders", "Items", "Failures"}
    assert set(known.streams) == declared
    assert loaded.dropped == ("temporary",)
    told = {(notice.code, notice.query) for notice in loaded.notices}
    assert {code for code, _ in told} == {"W210"}  # the page says why
    assert not {query for _, query in told} & {"attacked", "failures_so_far"}
    assert set(known.views) == {"Trades", "Dearest"}
    assert len(loaded.queries) == 18
    assert len(known.constraints) == 4
