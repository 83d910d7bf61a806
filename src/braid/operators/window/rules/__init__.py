"""Rules that merge operators of `operators/window`."""
