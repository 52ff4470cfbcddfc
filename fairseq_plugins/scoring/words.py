"""Words of a text in any script, for the metrics that compare words."""

import unicodedata
from typing import Dict, List

import regex

from ..ops.scripts import JOINERS, SPACELESS, WORD

_SPACED = rf"[[{WORD}]--[{SPACELESS}]]"
_PATTERNS: Dict[str, "regex.Pattern[str]"] = {
    name: regex.compile(pattern, flags=regex.V1)
    for name, pattern in {
        "auto": rf"[[{SPACELESS}]&&[{WORD}]]\p{{M}}*|{_SPACED}+(?:[{JOINERS}]+{_SPACED}+)*",
        "word": rf"[{WORD}]+(?:[{JOINERS}]+[{WORD}]+)*",
        "char": rf"[{WORD}]\p{{M}}*",
    }.items()
}
KINDS = tuple(_PATTERNS)


def words(text: str, kind: str = "auto", lower: bool = True) -> List[str]:
    """Split a text into words: runs of letters, marks and digits; everything else separates and is dropped.

    Args:
        kind: ``auto`` takes scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) by character and all
            others by word; ``word`` never splits a run; ``char`` takes every script by character. A character keeps
            the marks that follow it.
        lower: lower-case first.

    Returns:
        The words in Unicode form NFC, so that both spellings of an accent are equal. For ASCII text they are those of
        rouge_score's default tokenizer; that one drops every letter outside a-z.
    """
    if kind not in _PATTERNS:
        raise ValueError(f"tokens {kind}: valid: {', '.join(KINDS)}")
    return _PATTERNS[kind].findall(unicodedata.normalize("NFC", text.lower() if lower else text))
