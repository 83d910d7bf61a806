"""Joins of XML and JSON documents (MMQJP)."""
