"""Projection, renaming and computed attributes."""
