"""A wheel with compiled kernels is for one Python and one platform: its tag says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelTag(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Without compiled kernels the wheel is for all platforms, and an editable one too."""
        built = Path(self.root, "src", "braid", "jit", "compiled", "packs").glob("*.pack")
        if version != "editable" and any(built):
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
