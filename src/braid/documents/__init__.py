"""Parsed XML and JSON documents as tables of nodes."""
