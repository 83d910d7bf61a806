"""Compiled kernels of `operators/to_stream`."""
