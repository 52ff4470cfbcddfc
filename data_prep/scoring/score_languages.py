"""Score one model's outputs language by language, trained and zero-shot languages apart."""

from typing import Any, Dict, List, Optional, Sequence

from .. import cli
from ..files import write_json
from ..io import InputError, read_lines
from ..options import adder
from ..progress import heartbeat
from .metrics import DEFAULT_METRICS, METRICS, check_metrics
from .score import (
    TITLES,
    System,
    format_row,
    format_signatures,
    read_systems,
    score_systems,
)

ALL = ""  # key of the reference of every language without its own


def read_references(options: Sequence[str]) -> Dict[str, List[str]]:
    """Read ``FILE``, for all languages, and ``LANGUAGE=FILE``, for one.

    Raises:
        InputError: two for one language, or an unreadable file.
    """
    references: Dict[str, List[str]] = {}
    for item in options:
        language, equals, path = item.partition("=")
        if not equals:
            language, path = ALL, item
        if language in references:
            problem = f"a second one for {language or 'all languages'}"
            raise InputError(f"--reference {item}: {problem}; valid: one")
        references[language] = list(read_lines(path, "--reference", strict=False))
    return references


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
        references: by language; :data:`ALL` for languages without a reference.
        trained: languages that the model was trained on.
        metrics: names of :data:`.metrics.METRICS`.
        tokenize: sacreBLEU's tokenizer of BLEU.

    Returns:
        ``languages``: a row each with language, trained, sentences, length_ratio and the scores,
        trained languages first; ``means``: means of the scores over the trained and over the
        zero-shot languages; ``signatures``.

    Raises:
        InputError: a language without reference, a reference without language, unequal line
            counts.
    """
    unused = sorted(set(references) - {ALL} - {system.name for system in systems})
    if unused:
        raise InputError(f"--reference {unused[0]}=FILE: no --system of that language")
    rows: List[Dict[str, Any]] = []
    signatures: Dict[str, str] = {}
    for system in systems:
        name = system.name
        reference = references.get(name, references.get(ALL))
        if reference is None:
            valid = f"--reference FILE or --reference {name}=FILE"
            raise InputError(f"--system {name}: no reference; valid: {valid}")
        scores = score_systems([system], reference, metrics=metrics, tokenize=tokenize)
        signatures = scores["signatures"]
        row = {"language": name, "trained": name in trained, "sentences": len(system.lines)}
        for key in ("length_ratio", *signatures):
            row[key] = scores["systems"][0][key]
        rows.append(row)
    rows.sort(key=lambda row: not row["trained"])  # stable: otherwise in their order
    means = {}
    for kind, is_trained in (("trained", True), ("zero-shot", False)):
        group = [row for row in rows if row["trained"] is is_trained]
        if group:
            means[kind] = {key: sum(row[key] for row in group) / len(group) for key in signatures}
    return {"languages": rows, "means": means, "signatures": signatures}


def format_table(scores: Dict[str, Any]) -> str:
    """Return the scores of :func:`score_languages` as a Markdown table with signatures below."""
    keys = list(scores["signatures"])
    titles = ["language", "seen in training", *(TITLES[key] for key in keys)]
    lines = [format_row([*titles, "length ratio", "sentences"]), "|" + "---|" * (len(keys) + 4)]
    for row in scores["languages"]:
        kind = "trained" if row["trained"] else "zero-shot"
        cells = [f"{row[key]:.1f}" for key in keys]
        sizes = [f"{row['length_ratio']:.3f}", str(row["sentences"])]
        lines.append(format_row([row["language"], kind, *cells, *sizes]))
    for kind, means in scores["means"].items():
        cells = [f"{means[key]:.1f}" for key in keys]
        lines.append(format_row([f"*mean, {kind}*", kind, *cells, "", ""]))
    return "\n".join([*lines, "", *format_signatures(scores["signatures"])])


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("score_languages", __doc__)
    add = adder(parser)
    text = "translations from a language, one sentence per line; may be repeated"
    add("--system", "LANGUAGE=FILE", text, required=True, action="append")
    text = "reference of all languages, or LANGUAGE=FILE of one; may be repeated"
    add("--reference", "FILE", text, required=True, action="append")
    text = "languages that the model was trained on, separated by commas"
    add("--trained", None, text, default="")
    text = f"metrics out of {', '.join(METRICS)}, separated by commas"
    add("--metrics", None, text, default=",".join(DEFAULT_METRICS))
    add("--tokenize", None, "sacreBLEU's tokenizer of BLEU and lengths", default="13a")
    add("--json", None, "JSON file of the result")
    args = parser.parse_args(argv)
    metrics = args.metrics.split(",")
    check_metrics(metrics)
    systems, references = read_systems(args.system), read_references(args.reference)
    trained = [language for language in args.trained.split(",") if language]
    with heartbeat(f"score_languages: {len(systems)} systems"):
        scores = score_languages(systems, references, trained, metrics, args.tokenize)
    if args.json:
        write_json(args.json, scores)
        cli.say(f"score_languages: wrote {args.json}")
    print(format_table(scores))
