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
    assert set(known.streams) == {"Stock", "Outage", "Reading", "Click", "Orders", "Items"}
    assert loaded.dropped == ("temporary",)
    assert not loaded.notices
    assert set(known.views) == {"Trades", "Dearest"}
    assert len(loaded.queries) == 16
    assert len(known.constraints) == 4
