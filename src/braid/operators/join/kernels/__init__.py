"""Compiled kernels of `operators/join`."""
