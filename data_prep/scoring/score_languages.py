"""Score one model's outputs language by language: BLEU, chrF ... with signatures, trained and zero-shot languages apart."""

import argparse
from typing import Any, Dict, List, Optional, Sequence

from ..cli import parser, run, say
from ..files import write_json
from ..io import InputError, read_lines
from ..progress import heartbeat
from .metrics import DEFAULT_METRICS, METRICS, check_metrics
from .score import TITLES, System, read_systems, score_systems

ALL = ""  # the reference of every language without one of its own


def read_references(options: Sequence[str]) -> Dict[str, List[str]]:
    """Read ``FILE``, for all languages, and ``LANGUAGE=FILE``, for one.

    Raises:
        InputError: two for one language, or an unreadable file.
    """
    found: Dict[str, List[str]] = {}
    for option in options:
        language, equals, path = option.partition("=")
        language, path = (language, path) if equals else (ALL, option)
        if language in found:
            raise InputError(
                f"--reference {option}: a second one for {language or 'all languages'}; valid: one"
            )
        found[language] = list(read_lines(path, "--reference", strict=False))
    return found


def score_languages(
    systems: Sequence[System],
    references: Dict[str, List[str]],
    trained: Sequence[str],
    metrics: Sequence[str] = DEFAULT_METRICS,
    tokenize: str = "13a",
) -> Dict[str, Any]:
    """Score each language by itself.

    Args:
        systems: outputs, named by the language they were translated from.
        references: by language; :data:`ALL` for those without one.
        trained: languages that the model was trained on.
        metrics: names of :data:`.score_metrics.METRICS`.
        tokenize: sacreBLEU's tokenizer of BLEU.

    Returns:
        ``languages``: a row each with language, trained, sentences, length_ratio and the scores, trained languages first;
        ``means``: the scores' means over the trained and over the zero-shot languages; ``signatures``.

    Raises:
        InputError: a language without reference, a reference without language, unequal line counts.
    """
    unused = sorted(set(references) - {ALL} - {system.name for system in systems})
    if unused:
        raise InputError(f"--reference {unused[0]}=FILE: no --system of that language")
    rows, signatures = [], {}
    for name, lines in systems:
        if name not in references and ALL not in references:
            raise InputError(
                f"--system {name}: no reference; valid: --reference FILE or --reference {name}=FILE"
            )
        reference = references.get(name, references.get(ALL, []))
        result = score_systems([System(name, lines)], reference, metrics=metrics, tokenize=tokenize)
        signatures = result["signatures"]
        (row,) = result["systems"]
        scores = {key: row[key] for key in signatures}
        rows.append(
            {
                "language": name,
                "trained": name in trained,
                "sentences": len(lines),
                "length_ratio": row["length_ratio"],
                **scores,
            }
        )
    rows.sort(key=lambda row: not row["trained"])  # stable: otherwise in the order they were given
    means = {}
    for kind, wanted in (("trained", True), ("zero-shot", False)):
        group = [row for row in rows if row["trained"] is wanted]
        if group:
            means[kind] = {key: sum(row[key] for row in group) / len(group) for key in signatures}
    return {"languages": rows, "means": means, "signatures": signatures}


def table(result: Dict[str, Any]) -> str:
    """The result of :func:`score_languages` as a Markdown table with the signatures below."""
    keys = list(result["signatures"])
    lines = [
        _line(
            [
                "language",
                "seen in training",
                *(TITLES[key] for key in keys),
                "length ratio",
                "sentences",
            ]
        )
    ]
    lines.append("|" + "---|" * (len(keys) + 4))
    for row in result["languages"]:
        seen = "trained" if row["trained"] else "zero-shot"
        numbers = [f"{row[key]:.1f}" for key in keys]
        lines.append(
            _line(
                [
                    row["language"],
                    seen,
                    *numbers,
                    f"{row['length_ratio']:.3f}",
                    str(row["sentences"]),
                ]
            )
        )
    for kind, means in result["means"].items():
        lines.append(
            _line([f"*mean, {kind}*", kind, *(f"{means[key]:.1f}" for key in keys), "", ""])
        )
    lines += [
        "",
        *(f"{TITLES[key]}: {signature}" for key, signature in result["signatures"].items()),
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def build_parser() -> argparse.ArgumentParser:
    """Command line of the verb."""
    out = parser("score_languages", __doc__)
    out.add_argument(
        "--system",
        required=True,
        action="append",
        metavar="LANGUAGE=FILE",
        help="what was translated from a language, one sentence per line; may be repeated",
    )
    out.add_argument(
        "--reference",
        required=True,
        action="append",
        metavar="FILE",
        help="reference of all languages, or LANGUAGE=FILE of one; may be repeated",
    )
    out.add_argument(
        "--trained", default="", help="languages the model was trained on, separated by commas"
    )
    out.add_argument(
        "--metrics",
        default=",".join(DEFAULT_METRICS),
        help=f"of {', '.join(METRICS)}, separated by commas",
    )
    out.add_argument("--tokenize", default="13a", help="sacreBLEU's tokenizer for BLEU and lengths")
    out.add_argument("--json", help="write the result here as well")
    return out


def main(argv: Optional[List[str]] = None) -> None:
    """Print the table."""
    args = build_parser().parse_args(argv)
    metrics = args.metrics.split(",")
    check_metrics(metrics)
    systems, references = read_systems(args.system), read_references(args.reference)
    trained = [language for language in args.trained.split(",") if language]
    with heartbeat(f"score_languages: {len(systems)} systems"):
        result = score_languages(systems, references, trained, metrics, args.tokenize)
    if args.json:
        write_json(args.json, result)
        say(f"score_languages: wrote {args.json}")
    print(table(result))
