"""Queries that differ in their constants only are one template."""
