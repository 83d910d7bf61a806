"""Machine code of kernels: compiled, kept, found again and loaded."""
