"""Windowed joins: combinations of rows of several inputs."""
