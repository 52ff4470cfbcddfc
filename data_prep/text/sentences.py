"""The sentences of a document, found by punctuation."""

from typing import List

import regex

END_OF_SENTENCE = "</s>"
"""fairseq's symbol, which mBART was trained to read between the sentences of a document."""

# After the mark and closing quotes or brackets:
# - Latin and other scripts with spaces: white space, then no small letter. "J. Smith" and numbers
#   ("No. 5") do not end; other abbreviations ("Dr. Smith") do: no list of a language is read.
# - tokenised text: a mark between spaces ends always ("he came . she left").
# - Chinese and Japanese: no white space is needed.
_CLOSING = r"[\p{Pe}\p{Pf}\"']*"
_BOUNDARY = regex.compile(
    rf"(?:(?<!\b\p{{Lu}})(?<!\bNo)[.!?…؟।॥۔]+{_CLOSING}(?=\s+[^\s\p{{Ll}}])"
    rf"|(?<=\s)[.!?…؟।॥۔]+(?:\s+{_CLOSING}(?=\s))?(?=\s)"
    rf"|[。！？｡]+{_CLOSING})",
)


def split_sentences(text: str) -> List[str]:
    """Return the sentences of a text, without white space at their ends and without empty ones.

    Line ends are ends of sentences too. Joined by spaces, the sentences are the text (Chinese and
    Japanese: without the spaces).
    """
    sentences: List[str] = []
    for line in text.splitlines():
        start = 0
        for match in _BOUNDARY.finditer(line):
            sentences.append(line[start : match.end()].strip())
            start = match.end()
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]
