"""Check, clean and split parallel text, one sentence per line."""
