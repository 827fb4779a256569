"""Models: weights, tokenizers, engines, and the vectors they give."""
