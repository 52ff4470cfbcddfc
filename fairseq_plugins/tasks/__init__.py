"""One registered task a file."""
