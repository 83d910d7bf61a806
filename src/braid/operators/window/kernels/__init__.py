"""Compiled kernels of `operators/window`."""
