"""The ground: errors, checked bytes, safe files, and the one model every format speaks."""
