"""What a table of scores says about the texts themselves: length, and how much they repeat themselves."""

from typing import Callable, Dict, Iterable, List, NamedTuple

REPEATED_ORDER = 4


class TextStatistics(NamedTuple):
    """Counts of one text.

    Attributes:
        tokens: number of tokens.
        repetition: share of the tokens that equal the token before them in the same line, 0 to 1.
        repeated_4grams: share of the 4-grams that occurred before in the same line, 0 to 1.
    """

    tokens: int
    repetition: float
    repeated_4grams: float

    def shares(self) -> Dict[str, float]:
        """The two shares, by name."""
        return {"repetition": self.repetition, "repeated_4grams": self.repeated_4grams}


def text_statistics(lines: Iterable[str], tokenize: Callable[[str], str]) -> TextStatistics:
    """Count tokens and repetitions.

    Args:
        lines: one sentence per line.
        tokenize: puts spaces between tokens; the tokenizer of BLEU in the table, so that the length ratio is BLEU's.
    """
    tokens = adjacent = ngrams = repeated = 0
    for line in lines:
        words: List[str] = tokenize(line.rstrip()).split()
        tokens += len(words)
        adjacent += sum(first == second for first, second in zip(words, words[1:]))
        found = list(zip(*(words[start:] for start in range(REPEATED_ORDER))))
        ngrams += len(found)
        repeated += len(found) - len(set(found))
    return TextStatistics(tokens, adjacent / max(tokens, 1), repeated / max(ngrams, 1))
