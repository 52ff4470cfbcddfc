"""One package a model family."""
