"""Compiled kernels of `operators/pattern`."""
