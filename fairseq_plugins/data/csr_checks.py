"""What is wrong with a lexicon: it finds little in the text, was turned round, or goes into another language."""

from typing import Dict, Iterable, Set

from .csr_lexicon import Lexicon

LEAST_TRANSLATED = 0.4
"""Share of a text's words with an entry, of which a candidate must occur in the text of the other language."""

FEWEST_JUDGED = 50
"""Distinct words with an entry, below which that share tells nothing."""


def share_found(counts: Dict[str, int], words: Set[str]) -> float:
    """Share of a text's words that are in a set, as they are or lower-cased, in [0, 1]."""
    total = sum(counts.values())
    found = sum(count for text, count in counts.items() if text in words or text.lower() in words)
    return found / max(total, 1)


def is_backwards(counts: Dict[str, int], lexicon: Lexicon) -> bool:
    """Whether the second column of a lexicon is more of the text's language than the first one.

    Words that two languages share ("in", "man") are frequent, and running words mislead: a column is judged by its distinct words.

    Args:
        counts: words of the text and their frequencies.
        lexicon: normalised.
    """
    known = {form for text in counts for form in (text, text.lower())}
    second = {candidate for candidates in lexicon.values() for candidate in candidates}
    shares = [len(known.intersection(column)) / max(len(column), 1) for column in (lexicon, second)]
    return shares[1] > 2.0 * shares[0] and share_found(counts, second) > share_found(counts, set(lexicon))


def share_translated(counts: Dict[str, int], lexicon: Lexicon, others: Iterable[str]) -> float:
    """Share of a text's words with an entry, of which a candidate occurs in another text; in [0, 1], 1 for too few entries.

    Source: Multi30k, the share of the right dictionaries is 0.97 to 1.00, of those into another language 0.06 to 0.23.

    Args:
        counts: words of the text and their frequencies.
        lexicon: normalised.
        others: words of the other text.
    """
    known = {form for text in others for form in (text, text.lower())}
    used = {text: text if text in lexicon else text.lower() for text in counts}
    used = {text: key for text, key in used.items() if key in lexicon}
    if len(set(used.values())) < FEWEST_JUDGED:
        return 1.0
    good = {key for key in used.values() if any(word in known or word.lower() in known for word in lexicon[key])}
    total = sum(counts[text] for text in used)
    return sum(counts[text] for text, key in used.items() if key in good) / max(total, 1)


def diagnosis(counts: Dict[str, int], lexicon: Lexicon) -> str:
    """Why a lexicon has entries for so few words of a text: what would find more.

    Args:
        counts: words of the text and their frequencies.
        lexicon: normalised.
    """
    here = share_found(counts, set(lexicon))
    targets = {candidate for candidates in lexicon.values() for candidate in candidates}
    backwards = share_found(counts, targets)
    if is_backwards(counts, lexicon):
        return f"its second column has {100 * backwards:.1f} % of the words: it looks like the opposite direction"
    folded = {word.lower() for word in lexicon}
    lowered = share_found({text.lower(): count for text, count in counts.items()}, folded)
    if lowered > max(2.0 * here, 0.05):
        return f"with all words lower-cased it has {100 * lowered:.1f} %: lower-case its first column"
    frequent = sorted((text for text in counts), key=lambda text: -counts[text])[:5]
    return (
        f"the text's most frequent words are {', '.join(frequent)}, the lexicon's first {', '.join(list(lexicon)[:5])}: "
        "another language, another way of cutting words, or too small a lexicon"
    )
