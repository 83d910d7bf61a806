"""Rules that merge operators of `operators/project`."""
