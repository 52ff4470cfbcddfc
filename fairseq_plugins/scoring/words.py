"""Words of a text in any script, for the metrics that compare words."""

import unicodedata
from typing import List

import regex

from ..ops.scripts import JOINERS, SPACELESS, WORD

_SPACED = rf"[[{WORD}]--[{SPACELESS}]]"
_PATTERNS = {
    "auto": rf"[[{SPACELESS}]&&[{WORD}]]\p{{M}}*|{_SPACED}+(?:[{JOINERS}]+{_SPACED}+)*",
    "word": rf"[{WORD}]+(?:[{JOINERS}]+[{WORD}]+)*",
    "char": rf"[{WORD}]\p{{M}}*",
}
KINDS = tuple(_PATTERNS)


def words(text: str, kind: str = "auto", lower: bool = True) -> List[str]:
    """Split a text into words: runs of letters, marks and digits; other characters are dropped.

    The words are in Unicode form NFC, so that both spellings of an accent are equal. For ASCII text
    they are those of rouge_score's default tokenizer, which drops every letter outside a-z.

    Args:
        kind: ``auto`` splits scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese)
            into characters and all others into words; ``word`` never splits a run; ``char`` splits
            every script into characters. A character keeps the marks that follow it.
        lower: lower-case the text.
    """
    if kind not in _PATTERNS:
        raise ValueError(f"tokens {kind}: valid: {', '.join(KINDS)}")
    text = unicodedata.normalize("NFC", text.lower() if lower else text)
    return regex.findall(_PATTERNS[kind], text, flags=regex.V1)
