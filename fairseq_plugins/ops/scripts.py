"""Characters of words, and of scripts without spaces, as classes for the package ``regex``."""

JOINERS = r"\u200c\u200d"
"""Zero-width joiner and non-joiner: inside words of Persian or Hindi, never at their edge."""

WORD = r"\p{L}\p{M}\p{N}"
"""Letters, marks, digits."""

SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc"
"""Scripts without spaces between words, and the Japanese length mark, which is of no script."""
