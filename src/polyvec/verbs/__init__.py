"""What one does with a collection, one verb a file."""
