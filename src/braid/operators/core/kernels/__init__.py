"""Compiled kernels of `operators/core`."""
