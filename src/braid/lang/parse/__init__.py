"""Text -> syntax tree."""
