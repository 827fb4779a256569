"""What word embeddings are made of beside their formats: the rows of words and subwords (`storage`), the words nearest to a
vector (`nearest`), and search over product codes as they are (`codes`)."""
