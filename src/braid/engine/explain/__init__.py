"""Descriptions of a shared plan: text, JSON, picture, statistics."""
