"""Multi-operators: one file a family, each with its Spec (what), Logic (how) and state."""
