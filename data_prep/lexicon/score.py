"""Score a lexicon against a dictionary: precision among the first candidates, paired test."""

import math
from typing import Any, Dict, List, Optional, Set

from .. import cli
from ..files import write_json
from ..io import InputError
from ..options import add_flag, adder
from .files import Lexicon, check_direction, check_places, read_candidates

DEFAULT_RANKS = "1,5,10"


def precisions(lexicon: Lexicon, gold: Lexicon, ranks: List[int]) -> Dict[str, float]:
    """Return the percentage of words with a right candidate among the first N, as ``p@N``."""
    return {
        f"p@{rank}": 100 * sum(hits(lexicon, gold, rank).values()) / len(gold) for rank in ranks
    }


def hits(lexicon: Lexicon, gold: Lexicon, rank: int) -> Dict[str, bool]:
    """Return for each word of `gold` whether one of its first `rank` candidates is right."""
    return {
        word: not set(lexicon.get(word, [])[:rank]).isdisjoint(translations)
        for word, translations in gold.items()
    }


def scorable(lexicon: Lexicon, dictionary: Lexicon, targets: Optional[Set[str]]) -> Lexicon:
    """Return the words of a dictionary that a lexicon has; translations among `targets`, if any."""
    gold = {}
    for word, translations in dictionary.items():
        if targets is not None:
            translations = [target for target in translations if target in targets]
        if word in lexicon and translations:
            gold[word] = translations
    return gold


def mcnemar(first: Dict[str, bool], second: Dict[str, bool]) -> Dict[str, Any]:
    """Compute the exact test of McNemar, two-sided, of two lexicons.

    Args:
        first: word -> right.
        second: the same words.

    Returns:
        ``only_first`` and ``only_second``: numbers of words; ``p``: probability that words that
        only one lexicon has right fall so unevenly by chance.

    Source: McNemar 1947, with the binomial distribution.
    """
    only_first = sum(first[word] and not second[word] for word in first)
    only_second = sum(second[word] and not first[word] for word in first)
    differing, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(differing, count) for count in range(fewer + 1)) * 2
    return {
        "only_first": only_first,
        "only_second": only_second,
        "p": min(1.0, tail / 2**differing),
    }


def score(
    lexicon: Lexicon,
    dictionary: Lexicon,
    ranks: List[int],
    targets: Optional[Set[str]] = None,
    baseline: Optional[Lexicon] = None,
) -> Dict[str, Any]:
    """Score a lexicon, and compare it with another one on the same words.

    Args:
        lexicon: source word -> candidates by rank.
        dictionary: source word -> translations.
        ranks: ranks of the precisions.
        targets: target vocabulary: translations outside of it do not count. None: all count.
        baseline: another lexicon; both are then scored on the words that both have.

    Returns:
        ``words`` scored, ``coverage`` in percent of the dictionary's words, ``p@N`` in percent;
        with a baseline its precisions under ``baseline``, and ``mcnemar`` of the first candidates.

    Raises:
        InputError: no word can be scored.
    """
    gold = scorable(lexicon, dictionary, targets)
    if baseline is not None:
        gold = scorable(baseline, gold, None)
    if not gold:
        valid = "words and translations that the lexicon has"
        raise InputError(f"--dictionary: none of its words can be scored; valid: {valid}")
    scores: Dict[str, Any] = {"words": len(gold), "coverage": 100 * len(gold) / len(dictionary)}
    scores.update(precisions(lexicon, gold, ranks))
    if baseline is not None:
        scores["baseline"] = precisions(baseline, gold, ranks)
        scores["mcnemar"] = mcnemar(hits(lexicon, gold, 1), hits(baseline, gold, 1))
    return scores


def format_table(scores: Dict[str, Any]) -> str:
    """Return the scores as a Markdown table, and the test as a line."""
    names = [name for name in scores if name.startswith("p@")]
    lines = [f"| lexicon | words | coverage | {' | '.join(names)} |"]
    lines.append("|---|---:|---:|" + "---:|" * len(names))
    sizes = f"{scores['words']:,} | {scores['coverage']:.1f}"
    for title, part in (("lexicon", scores), ("baseline", scores.get("baseline"))):
        if part:
            cells = " | ".join(f"{part[name]:.1f}" for name in names)
            lines.append(f"| {title} | {sizes} | {cells} |")
    test = scores.get("mcnemar")
    if test:
        lines.append(
            f"\nfirst candidates: {test['only_first']} words right only in the lexicon, "
            f"{test['only_second']} only in the baseline; McNemar p = {test['p']:.3f}"
        )
    return "\n".join(lines)


def parse_ranks(text: str) -> List[int]:
    """Return the ranks of ``1,5,10``.

    Raises:
        InputError: a rank is no whole number from 1.
    """
    items = text.split(",")
    if not all(item.isdecimal() and int(item) > 0 for item in items):
        raise InputError(f"--at {text}: valid: whole numbers from 1, as {DEFAULT_RANKS}")
    return [int(item) for item in items]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("score_lexicon", __doc__)
    add = adder(parser)
    text = "lexicon: TSV (source, target, score, rank) or MUSE's form"
    add("--lexicon", "FILE", text, required=True)
    text = "right translations, in MUSE's form or TSV; joined"
    add("--dictionary", "FILE", text, many=True, required=True)
    text = "lexicon of the other direction: its source words are the target vocabulary, and"
    add("--reverse", "FILE", f"{text} translations outside of it do not count")
    text = "another lexicon: both are scored on the words that both have"
    add("--baseline", "FILE", text)
    text = "ranks N of the precisions among the first N candidates"
    add("--at", "RANKS", text, default=DEFAULT_RANKS)
    add_flag(parser, "--cased", "keep upper case of the dictionary and the lexicons")
    add("--json", "FILE", "JSON file of the result")
    args = parser.parse_args(argv)
    ranks, lower = parse_ranks(args.at), not args.cased
    names = [name for name in ("lexicon", "baseline", "reverse") if getattr(args, name)]
    paths = {name: getattr(args, name) for name in names}
    inputs = [("--dictionary", path) for path in args.dictionary]
    inputs += [(f"--{name}", path) for name, path in paths.items()]
    check_places(inputs, [("--json", args.json)] if args.json else [])
    dictionary: Lexicon = {}
    for path in args.dictionary:
        part = read_candidates(path, "--dictionary", lower=lower)
        for word, translations in part.items():
            dictionary[word] = list(dict.fromkeys([*dictionary.get(word, []), *translations]))
    lexicons = {
        name: read_candidates(path, f"--{name}", lower=lower) for name, path in paths.items()
    }
    dictionary_name = f"--dictionary {' '.join(args.dictionary)}"
    for name in ("lexicon", "baseline"):
        if name in lexicons:
            option = f"--{name} {paths[name]}"
            warning = check_direction(lexicons[name], dictionary, option, dictionary_name)
            if warning:
                cli.say(f"score_lexicon: warning: {warning}")
    targets = set(lexicons["reverse"]) if args.reverse else None
    baseline = lexicons.get("baseline")
    scores = score(lexicons["lexicon"], dictionary, ranks, targets, baseline)
    print(format_table(scores))
    if args.json:
        write_json(args.json, scores)
        cli.say(f"score_lexicon: wrote {args.json}")
