"""Compiled kernels of `operators/documents`."""
