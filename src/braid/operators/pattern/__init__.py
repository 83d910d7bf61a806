"""NEXT and FOLD: sequences and iterations as shared automata (Cayuga)."""
