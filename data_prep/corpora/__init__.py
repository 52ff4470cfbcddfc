"""Public corpora as files of text: one module for each corpus or family of corpora."""
