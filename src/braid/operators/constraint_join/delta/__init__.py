"""Constraint joins of relations whose rows come and go."""
