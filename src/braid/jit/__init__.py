"""Numba and NumPy only: arrays and scalars in, arrays out. No knowledge of queries or of Arrow."""
