"""The page and the server."""
