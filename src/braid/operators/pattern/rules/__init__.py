"""Rules that merge operators of `operators/pattern`."""
