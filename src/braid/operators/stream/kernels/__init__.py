"""Compiled kernels of `operators/stream`."""
