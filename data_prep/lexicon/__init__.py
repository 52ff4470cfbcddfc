"""Lexicons from two texts without translations: words, word vectors, one space, candidates."""
