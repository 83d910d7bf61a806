"""Rules that merge operators of `operators/select`."""
