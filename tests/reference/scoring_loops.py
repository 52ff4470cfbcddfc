"""ROUGE and METEOR as slow loops over lists of words; nothing here calls the package."""

from itertools import combinations


def ngram_f1(hypothesis, reference, order):
    """Compute precision, recall and F1 of n-grams, as ratios.

    Each n-gram of the reference matches one of the hypothesis. Source: Lin 2004, equation 1.
    """
    candidates = [hypothesis[i : i + order] for i in range(len(hypothesis) - order + 1)]
    references = [reference[i : i + order] for i in range(len(reference) - order + 1)]
    unmatched, common = list(references), 0
    for ngram in candidates:
        if ngram in unmatched:
            unmatched.remove(ngram)
            common += 1
    return _ratios(common, len(candidates), len(references))


def subsequence_f1(hypothesis, reference):
    """Compute precision, recall and F1 of the longest common subsequence, trying all of them.

    Source: Lin 2004, equations 2 to 4 with beta = 1.
    """
    for size in range(len(hypothesis), 0, -1):
        if any(_is_subsequence(words, reference) for words in combinations(hypothesis, size)):
            return _ratios(size, len(hypothesis), len(reference))
    return 0.0, 0.0, 0.0


def _is_subsequence(words, text):
    remaining = iter(text)
    return all(word in remaining for word in words)


def _ratios(common, in_hypothesis, in_reference):
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / in_hypothesis, common / in_reference
    return precision, recall, 2 / (1 / precision + 1 / recall)


def fewest_chunks(hypothesis, reference):
    """Return matches and chunks of the best alignment: most matches, then fewest chunks.

    Source: Banerjee and Lavie 2005, section 2.2.
    """
    best = (0, 0)

    def extend(place, pairs):
        nonlocal best
        if place == len(hypothesis):
            alignment = len(pairs), -_chunks(pairs)
            best = max(best, alignment) if best[0] else alignment
            return
        extend(place + 1, pairs)
        for match, word in enumerate(reference):
            if word == hypothesis[place] and match not in [pair[1] for pair in pairs]:
                extend(place + 1, [*pairs, (place, match)])

    extend(0, [])
    return best[0], -best[1]


def _chunks(pairs):
    """Count chunks: a pair continues the previous one if they are adjacent on both sides."""
    following = zip(pairs, pairs[1:])
    return len(pairs) - sum((a + 1, b + 1) == next_pair for (a, b), next_pair in following)
