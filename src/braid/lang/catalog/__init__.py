"""What is declared and registered: streams, queries, prepared queries, query files."""
