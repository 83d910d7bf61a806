"""Rules that merge operators of `operators/join`."""
