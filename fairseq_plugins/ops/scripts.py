"""Characters of words, and of scripts that put no space between them, as classes for the package ``regex``."""

JOINERS = r"\u200c\u200d"
"""Zero-width joiner and non-joiner: inside words of Persian, Hindi and others, never at their edge."""

WORD = r"\p{L}\p{M}\p{N}"
"""Letters, marks, digits."""

SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc"
"""Scripts without spaces between words; the last is the Japanese length mark, which belongs to no script."""
