"""Rebuild RESULTS.md from what runs/ holds: hypotheses, run.json of each run, and the scores of the hypotheses.

Without ``--data`` the committed scores are used; with it the hypotheses are scored again with sacreBLEU against the
references in that folder (the text itself is not part of the project).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from data_prep.io import read_lines, write_json  # noqa: E402
from data_prep.score import System, score_systems  # noqa: E402

TEST = "test_2016_flickr.de"


def hypotheses(runs: Path) -> List[System]:
    """Every committed output, named RUN/PASSES."""

    def order(path: Path) -> Tuple[bool, str, int]:
        """The AT baseline first, then by run and number of passes."""
        run = path.parent.name
        return not run.startswith("at"), run, int(path.stem) if path.stem.isdigit() else 0

    paths = sorted(runs.glob("*/*.de"), key=order)
    return [System(f"{path.parent.name}/{path.stem}", list(read_lines(path, "runs", strict=False))) for path in paths]


def rescore(runs: Path, data: Path) -> Dict[str, Any]:
    """Score all outputs against the references; the first AT run is the baseline of the bootstrap."""
    systems = hypotheses(runs)
    result = score_systems(systems, list(read_lines(data / TEST, "--data")))
    write_json(runs / "scores.json", result)
    return result


def row(score: Dict[str, Any], run: Dict[str, Any]) -> str:
    """One line of the table."""
    name, passes = score["name"].rsplit("/", 1)
    how = f"{passes} denoising passes at most" if passes.isdigit() else "beam 5"
    mean = run.get("mean_passes", {}).get(passes)
    how += "" if mean is None else f" (mean {mean:.2f})"
    p_value = "" if score["p_value"] is None else f"{score['p_value']:.3f}"
    cells = [name, how, f"{run['trained_parameters']:,}", f"{run['updates']:,}", f"{run['train_seconds'] / 60:.0f}"]
    cells += [f"{score['bleu']:.1f}", f"{score['chrf']:.1f}", f"{score['length_ratio']:.3f}", p_value]
    return "| " + " | ".join(cells) + " |"


def render(runs: Path, scores: Dict[str, Any]) -> str:
    """The whole page."""
    facts = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(runs.glob("*/run.json"))}
    lines = [(HERE / "results_head.md").read_text(encoding="utf-8").rstrip(), ""]
    lines.append(
        "| run | decoding | trained parameters | updates | training minutes | BLEU | chrF | length ratio | p against the first |"
    )
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    lines += [row(score, facts[score["name"].rsplit("/", 1)[0]]) for score in scores["systems"]]
    lines += ["", f"- BLEU: `{scores['signatures']['bleu']}`", f"- chrF: `{scores['signatures']['chrf']}`"]
    lines.append(
        f"- p: paired bootstrap, {scores['bootstrap']['samples']} samples, seed {scores['bootstrap']['seed']}."
    )
    machines = sorted({fact["machine"] for fact in facts.values()})
    lines.append(f"- Machine: {'; '.join(machines)}.")
    lines += ["", "Validation BLEU by update (greedy or at most 3 denoising passes):", ""]
    for name, fact in facts.items():
        points = [
            f"{int(point['num_updates'])}: {point['bleu']:.1f}" for point in fact["validation"] if "bleu" in point
        ]
        lines.append(f"- {name}: " + ", ".join(points))
    return "\n".join(lines) + "\n"


def main(argv: Optional[List[str]] = None) -> None:
    """Write RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help=f"folder with {TEST}; scores the hypotheses again")
    args = parser.parse_args(argv)
    runs = HERE / "runs"
    if not list(runs.glob("*/run.json")):
        sys.exit(
            f"results: no run in {runs.relative_to(HERE.parent.parent)}; train and evaluate first, see examples/sga/README.md"
        )
    if args.data is not None:
        scores = rescore(runs, args.data)
    else:
        scores = json.loads((runs / "scores.json").read_text(encoding="utf-8"))
    (HERE / "RESULTS.md").write_text(render(runs, scores), encoding="utf-8")
    print(f"wrote {(HERE / 'RESULTS.md').relative_to(HERE.parent.parent)}: {len(scores['systems'])} rows")


if __name__ == "__main__":
    main()
