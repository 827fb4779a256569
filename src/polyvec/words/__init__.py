"""What word embeddings are made of beside their formats: the rows of words and subwords, and search over their codes."""
