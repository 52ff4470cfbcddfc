"""F1 and exact match of answers, by SQuAD's definition and by MLQA's, which knows languages.

Source: Rajpurkar et al. 2016, section 6.1, and the official evaluation of SQuAD v1.1; Lewis et al. 2020, section 3.3, and
the official evaluation of MLQA (version 1). XTREME scores XQuAD and TyDiQA-GoldP as SQuAD, MLQA as MLQA.
"""

import re
import string
import unicodedata
from collections import Counter
from typing import List, Optional, Sequence

_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": "ال",  # wherever it stands: the official pattern's other half, at the start of a word, can never match
}


def answer_words(text: str, language: Optional[str] = None) -> List[str]:
    """What is compared of an answer: lower case, without punctuation and articles, split at white space.

    Without ``language`` SQuAD's definition: ASCII punctuation, English articles. With a code, as zh, MLQA's: Unicode punctuation,
    that language's articles, Chinese characters one by one. MLQA defines en, es, de, vi, ar, hi and zh (the last two without
    articles); other languages are treated as Hindi, by white space and without articles.
    """
    text, punctuation = text.lower(), {*string.punctuation}
    if language is not None:
        punctuation |= {letter for letter in text if unicodedata.category(letter).startswith("P")}
    text = "".join(letter for letter in text if letter not in punctuation)
    articles = _ARTICLES.get(language or "en")
    if articles is not None:
        text = re.sub(articles, " ", text)
    # Chinese characters, one by one
    return (re.sub("([\u4e00-\u9fa5])", r" \1 ", text) if language == "zh" else text).split()


def exact_match(prediction: str, answers: Sequence[str], language: Optional[str] = None) -> bool:
    """Whether the prediction has the words (see :func:`answer_words`) of one of the answers, in their order."""
    words = answer_words(prediction, language)
    return any(words == answer_words(answer, language) for answer in answers)


def answer_f1(prediction: str, answers: Sequence[str], language: Optional[str] = None) -> float:
    """F1 of the words (see :func:`answer_words`) as multisets, in [0, 1], against the answer that gives the most.

    0 where no word is common, also if both have none (where the exact match is 1, as in the official programs).
    """
    words = Counter(answer_words(prediction, language))
    return max(_f1(words, Counter(answer_words(answer, language))) for answer in answers)


def _f1(prediction: "Counter[str]", answer: "Counter[str]") -> float:
    common = sum((prediction & answer).values())
    return 2 * common / (sum(prediction.values()) + sum(answer.values())) if common else 0.0
