"""Compiled kernels of `operators/constraint_join`."""
