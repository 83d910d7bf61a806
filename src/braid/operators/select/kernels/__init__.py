"""Compiled kernels of `operators/select`."""
