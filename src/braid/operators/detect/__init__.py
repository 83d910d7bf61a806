"""DETECT: whether a windowed join has a result, answered from synopses (StaMe)."""
