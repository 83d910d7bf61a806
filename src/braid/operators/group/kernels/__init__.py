"""Compiled kernels of `operators/group`."""
