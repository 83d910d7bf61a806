"""Compiled kernels of `operators/selection_join`."""
