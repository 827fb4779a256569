"""Open, check, convert, shrink and search any embedding file, and know exactly what you lost."""

__version__ = "0.1.0"
