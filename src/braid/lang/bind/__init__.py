"""Syntax tree -> algebra: every name, type and schema rule is checked here."""
