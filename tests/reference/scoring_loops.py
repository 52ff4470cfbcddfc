"""ROUGE and METEOR as slow loops over lists of words; nothing here calls the package."""

from itertools import combinations


def ngram_f1(hypothesis, reference, order):
    """Lin 2004, equation 1: each n-gram of the reference is used up by one of the hypothesis. (P, R, F1), ratios."""
    mine = [hypothesis[i : i + order] for i in range(len(hypothesis) - order + 1)]
    theirs = [reference[i : i + order] for i in range(len(reference) - order + 1)]
    left, common = list(theirs), 0
    for ngram in mine:
        if ngram in left:
            left.remove(ngram)
            common += 1
    return _ratios(common, len(mine), len(theirs))


def subsequence_f1(hypothesis, reference):
    """Lin 2004, equations 2 to 4 with beta = 1; the longest common subsequence by trying every subsequence."""
    for size in range(len(hypothesis), 0, -1):
        if any(_is_subsequence(chosen, reference) for chosen in combinations(hypothesis, size)):
            return _ratios(size, len(hypothesis), len(reference))
    return 0.0, 0.0, 0.0


def _is_subsequence(words, text):
    rest = iter(text)
    return all(word in rest for word in words)


def _ratios(common, in_hypothesis, in_reference):
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / in_hypothesis, common / in_reference
    return precision, recall, 2 / (1 / precision + 1 / recall)


def fewest_chunks(hypothesis, reference):
    """Banerjee and Lavie 2005, section 2.2: (matches, chunks) over every alignment, most matches first."""
    best = (0, 0)

    def extend(place, pairs):
        nonlocal best
        if place == len(hypothesis):
            found = len(pairs), -_chunks(pairs)
            best = max(best, found) if best[0] else found
            return
        extend(place + 1, pairs)
        for other, word in enumerate(reference):
            if word == hypothesis[place] and other not in [pair[1] for pair in pairs]:
                extend(place + 1, [*pairs, (place, other)])

    extend(0, [])
    return best[0], -best[1]


def _chunks(pairs):
    """A pair goes on with the chunk of the pair before it if both are adjacent on both sides."""
    return len(pairs) - sum((a + 1, b + 1) == after for (a, b), after in zip(pairs, pairs[1:]))
