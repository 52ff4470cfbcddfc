"""One registered task per file."""
