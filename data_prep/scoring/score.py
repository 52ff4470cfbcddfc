"""Score translations: BLEU, chrF, TER, ROUGE, METEOR with signatures, repetition, paired bootstrap; files for COMET."""

import argparse
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..cli import parser, run, say
from ..files import write_json
from ..io import InputError, check_same_counts, read_lines
from ..progress import heartbeat
from .comet import file_names, write_comet_files
from .metrics import DEFAULT_METRICS, METRICS, build_bleu, build_metrics, check_metrics, evaluate
from .text import text_statistics

# Titles of the columns, by the key of the score.
TITLES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "rouge_1": "ROUGE-1",
    "rouge_2": "ROUGE-2",
    "rouge_l": "ROUGE-L",
    "meteor_exact": "METEOR-exact",
    "meteor_stem": "METEOR-stem",
    "language": "% in the language",
}
ALL_METRICS = tuple(name for name in METRICS if name != "meteor_stem")


class System(NamedTuple):
    """One output to be scored.

    Attributes:
        name: shown in the table.
        lines: one sentence per line of the reference.
    """

    name: str
    lines: List[str]


def read_systems(options: Sequence[str]) -> List[System]:
    """Read ``NAME=FILE`` options.

    Raises:
        InputError: no ``=``, a name twice, or an unreadable file.
    """
    systems: List[System] = []
    for option in options:
        name, equals, path = option.partition("=")
        if not (name and equals and path):
            raise InputError(f"--system {option}: valid: NAME=FILE")
        if name in {system.name for system in systems}:
            raise InputError(f"--system {option}: the name {name} is given twice")
        systems.append(System(name, list(read_lines(path, "--system", strict=False))))
    return systems


def score_systems(
    systems: Sequence[System],
    reference: List[str],
    samples: int = 1000,
    seed: int = 12345,
    metrics: Sequence[str] = DEFAULT_METRICS,
    tokenize: str = "13a",
    more_references: Sequence[List[str]] = (),
    languages: Sequence[str] = (),
) -> Dict[str, Any]:
    """Score every system; compare each with the first by paired bootstrap resampling (Koehn 2004).

    Args:
        systems: outputs; the first is the baseline of the comparison.
        reference: one sentence per line.
        samples: bootstrap samples.
        seed: of the bootstrap.
        metrics: names of :data:`.score_metrics.METRICS`.
        tokenize: sacreBLEU's tokenizer of BLEU, also for lengths and repetitions.
        more_references: other translations of the same sentences; an empty line is a missing one. BLEU counts what any of them
            has, the other metrics take the best one of each sentence. The length ratio is that to ``reference``.
        languages: the one that outputs should be in, then those that they may be in instead: adds the score ``language``,
            :class:`.score_language.LanguageShare`.

    Returns:
        ``systems``: a row each with name, a score for every metric, length_ratio, repetition, repeated_4grams, p_values (by
        metric) and p_value (that of BLEU; None for the first, or without BLEU); ``reference``: its repetition;
        ``signatures``; ``bootstrap``.

    Raises:
        InputError: line counts differ, the reference has no token, or a metric or tokenizer is unknown.
    """
    counts = {
        f"--reference number {number}": len(lines)
        for number, lines in enumerate(more_references, start=2)
    }
    check_same_counts(
        "--system",
        {"--reference": len(reference), **counts, **{s.name: len(s.lines) for s in systems}},
    )
    built = build_metrics(metrics, tokenize, languages)
    tokenizer = (built["bleu"] if "bleu" in built else build_bleu(tokenize)).tokenizer
    expected = text_statistics(reference, tokenizer)
    if expected.tokens == 0:
        raise InputError("--reference: every line is empty; valid: at least one token")
    outcomes = evaluate(
        [system.lines for system in systems], [reference, *more_references], built, samples, seed
    )
    rows = []
    for index, system in enumerate(systems):
        found = text_statistics(system.lines, tokenizer)
        row: Dict[str, Any] = {
            "name": system.name,
            "length_ratio": found.tokens / expected.tokens,
            **found.shares(),
        }
        row.update({key: outcome.scores[index] for key, outcome in outcomes.items()})
        row["p_values"] = {key: outcome.p_values[index] for key, outcome in outcomes.items()}
        row["p_value"] = row["p_values"].get("bleu")
        rows.append(row)
    return {
        "systems": rows,
        "reference": expected.shares(),
        "signatures": {key: outcome.signature for key, outcome in outcomes.items()},
        "bootstrap": {"samples": samples, "seed": seed},
    }


def table(result: Dict[str, Any]) -> str:
    """The result of :func:`score_systems` as a Markdown table with the signatures below."""
    keys = list(result["signatures"])
    titles = [
        "system",
        *(TITLES[key] for key in keys),
        "length ratio",
        "repeated tokens",
        "repeated 4-grams",
    ]
    lines = [_line(titles), "|" + "---|" * len(titles)]
    for row in result["systems"]:
        cells = [_cell(row[key], row["p_values"][key]) for key in keys]
        lines.append(_line([row["name"], *cells, f"{row['length_ratio']:.3f}", *_shares(row)]))
    lines.append(
        _line(["*reference*", *([""] * len(keys)), "1.000", *_shares(result["reference"])])
    )
    lines += [
        "",
        *(f"{TITLES[key]}: {signature}" for key, signature in result["signatures"].items()),
    ]
    if len(result["systems"]) > 1:
        first, bootstrap = result["systems"][0]["name"], result["bootstrap"]
        lines.append(
            f"p: paired bootstrap against {first}, {bootstrap['samples']} samples, seed {bootstrap['seed']}"
        )
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(score: float, p_value: Optional[float]) -> str:
    return f"{score:.1f}" if p_value is None else f"{score:.1f} (p {p_value:.3f})"


def _shares(row: Dict[str, float]) -> List[str]:
    return [f"{100 * row['repetition']:.2f} %", f"{100 * row['repeated_4grams']:.2f} %"]


def build_parser() -> argparse.ArgumentParser:
    """Command line of the verb."""
    out = parser("score", __doc__)
    out.add_argument(
        "--reference",
        required=True,
        nargs="+",
        metavar="FILE",
        help="reference, one sentence per line; more files are more references, an empty line a missing one",
    )
    out.add_argument(
        "--system",
        required=True,
        action="append",
        help="NAME=FILE, one sentence per line; may be repeated",
    )
    out.add_argument(
        "--metrics",
        default=",".join(DEFAULT_METRICS),
        help=f"of {', '.join(METRICS)}, separated by commas; all: {', '.join(ALL_METRICS)}. TER takes the longest",
    )
    out.add_argument(
        "--tokenize",
        default="13a",
        help="sacreBLEU's tokenizer for BLEU, lengths and repetitions: zh, ja-mecab, ko-mecab, char, intl ...; "
        "flores101, flores200 and spm make sacreBLEU download a model",
    )
    out.add_argument(
        "--languages",
        default="",
        metavar="CODES",
        help="as de,en: add the share of lines in the first of them, among these; needs py3langid",
    )
    out.add_argument("--json", help="write the result here as well")
    out.add_argument("--samples", type=int, default=1000, help="bootstrap samples")
    out.add_argument("--seed", type=int, default=12345, help="seed of the bootstrap")
    out.add_argument(
        "--comet-files",
        metavar="DIR",
        help="write the files that COMET's commands read; needs --source",
    )
    out.add_argument("--source", help="source text of --comet-files, one sentence per line")
    return out


def _check(args: argparse.Namespace) -> List[str]:
    """Check the options before a file is read; return the names of the metrics."""
    if args.samples < 1:
        raise InputError(f"--samples {args.samples}: valid: 1 or more")
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}: valid: 0 or more")
    if args.comet_files and not args.source:
        raise InputError(
            f"--comet-files {args.comet_files}: needs --source, the text that was translated"
        )
    if args.source and not args.comet_files:
        raise InputError(f"--source {args.source}: only --comet-files DIR uses it")
    names = list(ALL_METRICS) if args.metrics == "all" else args.metrics.split(",")
    check_metrics(names)
    return names


def main(argv: Optional[List[str]] = None) -> None:
    """Print the table."""
    args = build_parser().parse_args(argv)
    metrics = _check(args)
    reference, *more = [
        list(read_lines(path, "--reference", strict=False)) for path in args.reference
    ]
    systems = read_systems(args.system)
    source: List[str] = []
    if args.comet_files:
        source = list(read_lines(args.source, "--source", strict=False))
        check_same_counts("--source", {"--reference": len(reference), "--source": len(source)})
        file_names([system.name for system in systems])
    with heartbeat(f"score: {len(systems)} systems"):
        languages = args.languages.split(",") if args.languages else []
        result = score_systems(
            systems, reference, args.samples, args.seed, metrics, args.tokenize, more, languages
        )
    if args.json:
        write_json(args.json, result)
        say(f"score: wrote {args.json}")
    print(table(result))
    if args.comet_files:
        commands = write_comet_files(
            args.comet_files, source, {s.name: s.lines for s in systems}, reference
        )
        say(f"score: wrote the files of COMET to {args.comet_files}")
        print(
            "\nCOMET, in an environment of its own (extra comet; --gpus 0 for the CPU):\n"
            + "\n".join(commands)
        )
