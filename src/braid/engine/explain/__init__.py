"""Shows what a shared plan does: as text, as JSON, as a picture, in figures."""
