"""The one road to a file: fit a collection to a format, write it, read it back, say what was kept and what was lost."""
