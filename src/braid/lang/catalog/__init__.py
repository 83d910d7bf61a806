"""The catalog: declared streams, views, queries, prepared queries and query files."""
