"""Text to pieces and back, dictionaries of pieces, data-bin folders, smaller vocabularies."""
