"""The shared plan: m-op specs, channels, signatures, invariants, distribution, explain."""
