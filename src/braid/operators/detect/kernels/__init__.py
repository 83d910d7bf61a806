"""Compiled kernels of `operators/detect`."""
