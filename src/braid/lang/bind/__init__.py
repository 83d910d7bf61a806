"""Syntax tree -> algebra, with all checks of names, types and schemas."""
