"""Score a lexicon against a dictionary: precision among the first 1, 5, 10 candidates, coverage, paired test."""

import argparse
import math
from typing import Any, Dict, List, Optional, Set

from .. import cli
from ..files import write_json
from ..io import InputError
from .files import check_direction, check_places, read_candidates

DEFAULT_RANKS = "1,5,10"
Lexicon = Dict[str, List[str]]


def precisions(lexicon: Lexicon, gold: Lexicon, ranks: List[int]) -> Dict[str, float]:
    """Percent of the words of ``gold`` with a right candidate among the first so many: ``p@1`` and so on."""
    return {
        f"p@{rank}": 100 * sum(hits(lexicon, gold, rank).values()) / len(gold) for rank in ranks
    }


def hits(lexicon: Lexicon, gold: Lexicon, rank: int) -> Dict[str, bool]:
    """Whether one of the first ``rank`` candidates of each word of ``gold`` is right; no candidate is wrong."""
    return {
        word: bool(set(lexicon.get(word, [])[:rank]) & set(right)) for word, right in gold.items()
    }


def reachable(lexicon: Lexicon, dictionary: Lexicon, targets: Optional[Set[str]]) -> Lexicon:
    """The dictionary's words that the lexicon has, with their translations; with ``targets``, only those that are among them."""
    found = {}
    for word, right in dictionary.items():
        kept = [each for each in right if targets is None or each in targets]
        if word in lexicon and kept:
            found[word] = kept
    return found


def mcnemar(first: Dict[str, bool], second: Dict[str, bool]) -> Dict[str, Any]:
    """The exact test of McNemar, two-sided: would words that only one lexicon has right fall so unevenly by chance?

    Args:
        first: word -> right.
        second: the same words.

    Returns:
        ``only_first`` and ``only_second``: words; ``p``: probability.

    Source: McNemar 1947, with the binomial distribution.
    """
    only_first = sum(first[word] and not second[word] for word in first)
    only_second = sum(second[word] and not first[word] for word in first)
    differ, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(differ, count) for count in range(fewer + 1)) * 2
    return {"only_first": only_first, "only_second": only_second, "p": min(1.0, tail / 2**differ)}


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
        ranks: of the precisions.
        targets: the target vocabulary: translations outside it do not count. None: all count.
        baseline: another lexicon; both are then scored on the words that both have.

    Returns:
        ``words`` scored, ``coverage`` in percent of the dictionary's words, ``p@N`` in percent; with a baseline the same of it
        under ``baseline``, and ``mcnemar`` of the first candidates.

    Raises:
        InputError: no word can be scored.
    """
    gold = reachable(lexicon, dictionary, targets)
    if baseline is not None:
        gold = reachable(baseline, gold, None)
    if not gold:
        raise InputError(
            "--dictionary: none of its words can be scored; valid: words and translations that the lexicon has"
        )
    result: Dict[str, Any] = {"words": len(gold), "coverage": 100 * len(gold) / len(dictionary)}
    result.update(precisions(lexicon, gold, ranks))
    if baseline is not None:
        result["baseline"] = precisions(baseline, gold, ranks)
        result["mcnemar"] = mcnemar(hits(lexicon, gold, 1), hits(baseline, gold, 1))
    return result


def table(result: Dict[str, Any]) -> str:
    """The scores as a Markdown table, and the test as a line."""
    names = [name for name in result if name.startswith("p@")]
    lines = [
        f"| lexicon | words | coverage | {' | '.join(names)} |",
        "|---|---:|---:|" + "---:|" * len(names),
    ]
    for title, scores in (("lexicon", result), ("baseline", result.get("baseline"))):
        if scores:
            cells = " | ".join(f"{scores[name]:.1f}" for name in names)
            lines.append(f"| {title} | {result['words']:,} | {result['coverage']:.1f} | {cells} |")
    test = result.get("mcnemar")
    if test:
        lines.append(
            f"\nfirst candidates: {test['only_first']} words right only in the lexicon, {test['only_second']} only in the "
            f"baseline; McNemar p = {test['p']:.3f}"
        )
    return "\n".join(lines)


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.score_lexicon``."""
    parser = cli.parser("score_lexicon", __doc__)
    parser.add_argument(
        "--lexicon",
        required=True,
        metavar="FILE",
        help="TSV (source, target, score, rank) or MUSE's form",
    )
    parser.add_argument(
        "--dictionary",
        required=True,
        nargs="+",
        metavar="FILE",
        help="right translations, in MUSE's form or TSV; joined",
    )
    parser.add_argument(
        "--reverse",
        metavar="FILE",
        help="the lexicon of the other direction: its source words are the target vocabulary, and translations outside it do not "
        "count",
    )
    parser.add_argument(
        "--baseline",
        metavar="FILE",
        help="another lexicon: both are scored on the words that both have",
    )
    parser.add_argument(
        "--at",
        default=DEFAULT_RANKS,
        metavar="RANKS",
        help="precision among the first so many candidates",
    )
    parser.add_argument(
        "--cased", action="store_true", help="do not lower-case the dictionary and the lexicons"
    )
    parser.add_argument("--json", metavar="FILE", help="write the result here as well")
    return parser


def parse_ranks(text: str) -> List[int]:
    """Return the ranks of ``1,5,10``.

    Raises:
        InputError: a rank is no whole number from 1.
    """
    if not all(item.isdecimal() and int(item) > 0 for item in text.split(",")):
        raise InputError(f"--at {text}: valid: whole numbers from 1, as {DEFAULT_RANKS}")
    return [int(item) for item in text.split(",")]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    ranks, lower = parse_ranks(args.at), not args.cased
    named = {
        name: getattr(args, name)
        for name in ("lexicon", "baseline", "reverse")
        if getattr(args, name)
    }
    inputs = [
        *(("--dictionary", path) for path in args.dictionary),
        *((f"--{name}", path) for name, path in named.items()),
    ]
    check_places(inputs, [("--json", args.json)] if args.json else [])
    dictionary: Lexicon = {}
    for path in args.dictionary:
        for word, right in read_candidates(path, "--dictionary", lower=lower).items():
            dictionary[word] = list(dict.fromkeys([*dictionary.get(word, []), *right]))
    lexicons = {
        name: read_candidates(path, f"--{name}", lower=lower) for name, path in named.items()
    }
    shown = f"--dictionary {' '.join(args.dictionary)}"
    for name in ("lexicon", "baseline"):
        warning = (
            check_direction(lexicons[name], dictionary, f"--{name} {named[name]}", shown)
            if name in lexicons
            else None
        )
        if warning:
            cli.say(f"score_lexicon: warning: {warning}")
    targets = set(lexicons["reverse"]) if args.reverse else None
    result = score(lexicons["lexicon"], dictionary, ranks, targets, lexicons.get("baseline"))
    print(table(result))
    if args.json:
        write_json(args.json, result)
        cli.say(f"score_lexicon: wrote {args.json}")
