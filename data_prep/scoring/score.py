"""Score translations: BLEU, chrF, TER, ROUGE, METEOR with signatures, repetition, bootstrap."""

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .. import cli
from ..files import write_json
from ..io import InputError, check_same_counts, read_lines
from ..options import Options, add_fields, adder, from_args, option
from ..progress import heartbeat
from . import comet
from .metrics import (
    DEFAULT_METRICS,
    METRICS,
    Outcome,
    build_bleu,
    build_metrics,
    check_metrics,
    evaluate,
    text_statistics,
)

# Key of the score -> title of its column.
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
    """An output to be scored.

    Attributes:
        name: name in the table.
        lines: one sentence per line of the reference.
    """

    name: str
    lines: List[str]


@dataclass(frozen=True)
class Bootstrap(Options):
    """Options of the paired bootstrap."""

    samples: int = option(1000, "bootstrap samples, >= 1", minimum=1)
    seed: int = option(12345, "seed of the bootstrap, >= 0", minimum=0)


def read_systems(options: Sequence[str]) -> List[System]:
    """Read ``NAME=FILE`` options.

    Raises:
        InputError: no ``=``, a repeated name, or an unreadable file.
    """
    systems: Dict[str, System] = {}
    for item in options:
        name, equals, path = item.partition("=")
        if not (name and equals and path):
            raise InputError(f"--system {item}: valid: NAME=FILE")
        if name in systems:
            raise InputError(f"--system {item}: the name {name} is given twice")
        systems[name] = System(name, _read(path, "--system"))
    return list(systems.values())


def _read(path: str, name: str) -> List[str]:
    return list(read_lines(path, name, strict=False))


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
    """Score every system; compare each with the first by paired bootstrap (Koehn 2004).

    Args:
        systems: outputs; the first is the baseline of the comparison.
        reference: one sentence per line.
        samples: number of bootstrap samples.
        seed: seed of the bootstrap.
        metrics: names of :data:`.metrics.METRICS`.
        tokenize: sacreBLEU's tokenizer of BLEU, also for lengths and repetitions.
        more_references: other translations of the same sentences; an empty line is a missing one.
            BLEU counts matches with any of them, the other metrics take the best one of each
            sentence. The length ratio is that to `reference`.
        languages: language that outputs should be in, then those that they may be in in its
            place: adds the score ``language``, :class:`.language.LanguageShare`.

    Returns:
        ``systems``: a row each with name, a score for every metric, length_ratio, repetition,
        repeated_4grams, p_values (by metric) and p_value (that of BLEU; None for the first, or
        without BLEU); ``reference``: its repetition; ``signatures``; ``bootstrap``.

    Raises:
        InputError: line counts differ, the reference has no token, or a metric or tokenizer is
            unknown.
    """
    counts = {"--reference": len(reference)}
    for number, lines in enumerate(more_references, start=2):
        counts[f"--reference number {number}"] = len(lines)
    counts.update({system.name: len(system.lines) for system in systems})
    check_same_counts("--system", counts)
    scorers = build_metrics(metrics, tokenize, languages)
    tokenizer = (scorers["bleu"] if "bleu" in scorers else build_bleu(tokenize)).tokenizer
    expected = text_statistics(reference, tokenizer)
    if expected.tokens == 0:
        raise InputError("--reference: every line is empty; valid: at least one token")
    outputs, references = [system.lines for system in systems], [reference, *more_references]
    outcomes = evaluate(outputs, references, scorers, samples, seed)
    rows = []
    for index, system in enumerate(systems):
        statistics = text_statistics(system.lines, tokenizer)
        length_ratio = statistics.tokens / expected.tokens
        row = {"name": system.name, "length_ratio": length_ratio, **statistics.shares()}
        rows.append({**row, **_list_scores(outcomes, index)})
    return {
        "systems": rows,
        "reference": expected.shares(),
        "signatures": {key: outcome.signature for key, outcome in outcomes.items()},
        "bootstrap": {"samples": samples, "seed": seed},
    }


def _list_scores(outcomes: Dict[str, Outcome], index: int) -> Dict[str, Any]:
    """Return the scores and p-values of the system with this index."""
    scores: Dict[str, Any] = {key: outcome.scores[index] for key, outcome in outcomes.items()}
    p_values = {key: outcome.p_values[index] for key, outcome in outcomes.items()}
    return {**scores, "p_values": p_values, "p_value": p_values.get("bleu")}


def format_table(scores: Dict[str, Any]) -> str:
    """Return the scores of :func:`score_systems` as a Markdown table with signatures below."""
    keys, systems = list(scores["signatures"]), scores["systems"]
    titles = ["system", *(TITLES[key] for key in keys)]
    titles += ["length ratio", "repeated tokens", "repeated 4-grams"]
    lines = [format_row(titles), "|" + "---|" * len(titles)]
    for row in systems:
        cells = [_format_score(row[key], row["p_values"][key]) for key in keys]
        shares = _format_shares(row)
        lines.append(format_row([row["name"], *cells, f"{row['length_ratio']:.3f}", *shares]))
    shares = _format_shares(scores["reference"])
    lines.append(format_row(["*reference*", *("" for _ in keys), "1.000", *shares]))
    lines += ["", *format_signatures(scores["signatures"])]
    if len(systems) > 1:
        bootstrap = scores["bootstrap"]
        numbers = f"{bootstrap['samples']} samples, seed {bootstrap['seed']}"
        lines.append(f"p: paired bootstrap against {systems[0]['name']}, {numbers}")
    return "\n".join(lines)


def format_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def format_signatures(signatures: Dict[str, str]) -> List[str]:
    """Return a line for each signature."""
    return [f"{TITLES[key]}: {signature}" for key, signature in signatures.items()]


def _format_score(score: float, p_value: Optional[float]) -> str:
    return f"{score:.1f}" if p_value is None else f"{score:.1f} (p {p_value:.3f})"


def _format_shares(row: Dict[str, float]) -> List[str]:
    return [f"{100 * row['repetition']:.2f} %", f"{100 * row['repeated_4grams']:.2f} %"]


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    parser = cli.parser("score", f"{__doc__} Can write files for COMET.")
    add = adder(parser)
    text = "reference, one sentence per line; more files are more references, an empty line a"
    add("--reference", "FILE", f"{text} missing one", many=True, required=True)
    text = "NAME=FILE, output of a system, one sentence per line; may be repeated"
    add("--system", None, text, required=True, action="append")
    text = f"metrics out of {', '.join(METRICS)}, separated by commas; all: "
    text += f"{', '.join(ALL_METRICS)}. TER takes the longest"
    add("--metrics", None, text, default=",".join(DEFAULT_METRICS))
    text = "sacreBLEU's tokenizer of BLEU, lengths and repetitions: zh, ja-mecab, ko-mecab, char, "
    text += "intl ...; flores101, flores200 and spm make sacreBLEU download a model"
    add("--tokenize", None, text, default="13a")
    text = "languages, as de,en: add the share of lines in the first of them, among these; needs"
    add("--languages", "CODES", f"{text} py3langid", default="")
    add("--json", None, "JSON file of the result")
    add_fields(parser, Bootstrap)
    text = "folder of the files that COMET's commands read; needs --source"
    add("--comet-files", "DIR", text)
    add("--source", None, "source text of --comet-files, one sentence per line")
    text = f"model of COMET's commands (default: {comet.MODEL}); CSR has {comet.CSR_MODEL}"
    add("--comet-model", "NAME", text)
    args = parser.parse_args(argv)
    bootstrap = from_args(Bootstrap, args)
    if args.comet_files and not args.source:
        reason = "needs --source, the text that was translated"
        raise InputError(f"--comet-files {args.comet_files}: {reason}")
    if args.source and not args.comet_files:
        raise InputError(f"--source {args.source}: only --comet-files DIR uses it")
    if args.comet_model is not None and not args.comet_files:
        raise InputError(f"--comet-model {args.comet_model}: only --comet-files DIR uses it")
    if args.comet_model is not None and not args.comet_model.strip():
        raise InputError(f"--comet-model '': valid: a name, as {comet.MODEL}")
    metrics = list(ALL_METRICS) if args.metrics == "all" else args.metrics.split(",")
    check_metrics(metrics)
    reference, *more = [_read(path, "--reference") for path in args.reference]
    systems = read_systems(args.system)
    source: List[str] = []
    if args.comet_files:
        source = _read(args.source, "--source")
        check_same_counts("--source", {"--reference": len(reference), "--source": len(source)})
        comet.file_names([system.name for system in systems])
    languages = args.languages.split(",") if args.languages else []
    numbers = bootstrap.samples, bootstrap.seed
    with heartbeat(f"score: {len(systems)} systems"):
        scores = score_systems(
            systems, reference, *numbers, metrics, args.tokenize, more, languages
        )
    if args.json:
        write_json(args.json, scores)
        cli.say(f"score: wrote {args.json}")
    print(format_table(scores))
    if args.comet_files:
        lines = {system.name: system.lines for system in systems}
        model = args.comet_model or comet.MODEL
        commands = comet.write_comet_files(args.comet_files, source, lines, reference, model)
        cli.say(f"score: wrote the files of COMET to {args.comet_files}")
        hint = comet.OLD_HINT if model == comet.CSR_MODEL else comet.HINT
        print(f"\n{hint}\n" + "\n".join(commands))
