"""Score translations with sacreBLEU: BLEU and chrF with signatures, and paired bootstrap against the first system."""

import argparse
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .cli import parser, run, say
from .io import InputError, check_same_counts, read_lines, write_json


class System(NamedTuple):
    """One output to be scored.

    Attributes:
        name: shown in the table.
        lines: one sentence a line of the reference.
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
    systems: Sequence[System], reference: List[str], samples: int = 1000, seed: int = 12345
) -> Dict[str, Any]:
    """Score every system; compare each with the first by paired bootstrap resampling (Koehn 2004).

    Args:
        systems: outputs; the first is the baseline of the comparison.
        reference: one sentence a line.
        samples: bootstrap samples.
        seed: of the bootstrap.

    Returns:
        ``systems``: a row each with name, bleu, chrf, length_ratio, p_value (None for the first); ``signatures``; ``bootstrap``.

    Raises:
        InputError: line counts differ.
    """
    from sacrebleu.metrics import BLEU, CHRF

    check_same_counts("--system", {"--reference": len(reference), **{s.name: len(s.lines) for s in systems}})
    bleu, chrf = BLEU(), CHRF()
    rows = []
    for system in systems:
        result = bleu.corpus_score(system.lines, [reference])
        rows.append(
            {
                "name": system.name,
                "bleu": result.score,
                "chrf": chrf.corpus_score(system.lines, [reference]).score,
                "length_ratio": result.sys_len / result.ref_len,
                "p_value": None,
            }
        )
    for row, value in zip(rows[1:], _p_values(systems, reference, samples, seed)):
        row["p_value"] = value
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return {"systems": rows, "signatures": signatures, "bootstrap": {"samples": samples, "seed": seed}}


def _p_values(systems: Sequence[System], reference: List[str], samples: int, seed: int) -> List[float]:
    """Two-sided p-values of BLEU against the first system, by sacreBLEU's paired bootstrap."""
    import os

    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        return []
    os.environ["SACREBLEU_SEED"] = str(seed)
    named: Any = [(system.name, system.lines) for system in systems]
    test = PairedTest(named, {"BLEU": BLEU()}, [reference], test_type="bs", n_samples=samples)
    _, results = test()
    rows: List[Any] = list(results["BLEU"])
    # sacreBLEU reports the smallest p for an output that is the first system's own: no difference, no variance.
    same = [system.lines == systems[0].lines for system in systems]
    return [1.0 if equal else row.p_value for row, equal in zip(rows[1:], same[1:])]


def table(result: Dict[str, Any]) -> str:
    """The result as a Markdown table with the signatures below."""
    lines = ["| system | BLEU | chrF | length ratio | p against the first |", "|---|---|---|---|---|"]
    for row in result["systems"]:
        p_value = "" if row["p_value"] is None else f"{row['p_value']:.3f}"
        lines.append(
            f"| {row['name']} | {row['bleu']:.1f} | {row['chrf']:.1f} | {row['length_ratio']:.3f} | {p_value} |"
        )
    lines += ["", f"BLEU: {result['signatures']['bleu']}", f"chrF: {result['signatures']['chrf']}"]
    return "\n".join(lines)


def build_parser() -> argparse.ArgumentParser:
    """Command line of the verb."""
    out = parser("score", __doc__)
    out.add_argument("--reference", required=True, help="reference, one sentence a line")
    out.add_argument("--system", required=True, action="append", help="NAME=FILE, one sentence a line; may be repeated")
    out.add_argument("--json", help="write the result here as well")
    out.add_argument("--samples", type=int, default=1000, help="bootstrap samples")
    out.add_argument("--seed", type=int, default=12345, help="seed of the bootstrap")
    return out


def main(argv: Optional[List[str]] = None) -> None:
    """Print the table."""
    args = build_parser().parse_args(argv)
    if args.samples < 1:
        raise InputError(f"--samples {args.samples}: valid: 1 or more")
    reference = list(read_lines(args.reference, "--reference", strict=False))
    result = score_systems(read_systems(args.system), reference, args.samples, args.seed)
    if args.json:
        write_json(args.json, result)
        say(f"score: wrote {args.json}")
    print(table(result))


if __name__ == "__main__":
    run("score", main)
