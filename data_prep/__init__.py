"""Text to text: cleaning, splitting, sentencepiece, dictionaries and the toy corpus. Runs from the checkout or installed."""
