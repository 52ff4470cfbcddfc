"""The folder of a translator: its systems, a table, and the system that translates by default.

python -m recipes.report --pair en-cs --systems sga_lora at --output translator
python -m recipes.report --show runs/en-cs
"""

import argparse
import csv
import json
import shlex
import shutil
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .systems import System, read_system

NO_SEARCH = ("user-dir", "task", "batch-size", "remove-bpe")
"""Options of fairseq-generate that ``fairseq-plugins translate`` sets itself."""
FIT = 20.0
"""Validation BLEU from which the output reads as a translation of this kind of text."""
GIST = 10.0
"""Validation BLEU below which nothing can be relied on."""
FOLDER = "FOLDER"
"""Word for the folder's path on its own page, since the folder may be moved."""
NOTE = f"{FOLDER} is the path of this folder. In the checkout of fairseq_plugins:"
TITLES = ("system", "BLEU valid", "BLEU test", "chrF test", "length / reference")
TITLES += ("minutes of training", "CPU minutes")


def verdict(bleu: float) -> str:
    """Say in a sentence whether a system may be used, by its validation BLEU."""
    remedy = "More text, more hours or a larger pretrained model are needed."
    if bleu >= FIT:
        return "Fit for text like that of the training; other text was not tested."
    if bleu >= GIST:
        return f"Only for the gist: validation BLEU is below {FIT:g}. {remedy}"
    return f"NOT FIT FOR USE: validation BLEU is below {GIST:g}. {remedy}"


def read_cost(benchmarks: Path, system: str) -> Dict[str, float]:
    """Return minutes and CPU minutes of a training, by Snakemake's benchmark file."""
    with open(benchmarks / f"train-{system}.tsv", encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file, delimiter="\t"))
    return {"minutes": float(row["s"]) / 60, "cpu_minutes": float(row["cpu_time"]) / 60}


def describe(
    titles: Mapping[str, str],
    scores: Mapping[str, Any],
    costs: Mapping[str, Mapping[str, float]],
) -> Dict[str, Any]:
    """Return the content of ``translator.json``; the default is the best on validation.

    Args:
        titles: system -> its title.
        scores: subset -> what ``data_prep.score --json`` wrote.
        costs: system -> minutes and CPU minutes.
    """
    systems: Dict[str, Any] = {}
    for name, title in titles.items():
        systems[name] = {"title": title, **costs.get(name, {})}
    for subset, report in scores.items():
        for row in report["systems"]:
            numbers = {key: row[key] for key in ("bleu", "chrf", "length_ratio")}
            systems[row["name"]][subset] = numbers
    best = max(systems, key=lambda name: systems[name]["valid"]["bleu"])
    return {"default": best, "systems": systems, "signatures": scores["test"]["signatures"]}


def render(pair: str, content: Mapping[str, Any], masked_lm: Mapping[str, float]) -> str:
    """Return the README of the folder, finding first.

    Args:
        pair: the languages, as ``en-cs``.
        content: of ``translator.json``.
        masked_lm: minutes and CPU minutes of the masked LM; empty if it was given.
    """
    source, target = pair.split("-")
    best = content["systems"][content["default"]]
    lines = [
        f"# Translator from {source} to {target}",
        "",
        f"**{verdict(best['valid']['bleu'])}** The default is {best['title']}, which is better on "
        f"validation (BLEU {best['valid']['bleu']:.1f}); on the test set it has "
        f"{best['test']['bleu']:.1f}.",
        "",
        *_tabulate(content["systems"]),
        "",
    ]
    if masked_lm:
        minutes, cpu_minutes = masked_lm["minutes"], masked_lm["cpu_minutes"]
        times = f"{minutes:.0f} minutes ({cpu_minutes:.0f} of CPU)"
        lines += [f"The masked language model under SGA had {times} before.", ""]
    lines += [f"{name}: {signature}" for name, signature in content["signatures"].items()]
    translate = f"fairseq-plugins translate {FOLDER}"
    lines += [
        "",
        NOTE,
        "",
        "```bash",
        "source .venv/bin/activate",
        f"{translate} --input TEXT --output TRANSLATION",
        f"make serve MODEL={FOLDER}   # over HTTP, and a page for browsers",
        "```",
        "",
    ]
    return "\n".join(lines)


def _tabulate(systems: Mapping[str, Any]) -> List[str]:
    """Return the lines of the table of the systems."""
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    for name, row in systems.items():
        cells = [
            f"{row['title']} (`--system {name}`)",
            f"{row['valid']['bleu']:.1f}",
            f"{row['test']['bleu']:.1f}",
            f"{row['test']['chrf']:.1f}",
            f"{row['test']['length_ratio']:.2f}",
            f"{row['minutes']:.0f}",
            f"{row['cpu_minutes']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def show(output: str) -> str:
    """Return the page of the translator below ``output``, with its path quoted for a shell."""
    text = (Path(output) / "translator" / "README.md").read_text(encoding="utf-8")
    path = f"./{output}" if output.startswith("-") else output
    return text.replace(f"{NOTE}\n\n", "").replace(FOLDER, shlex.quote(path))


def build(pair: str, names: Sequence[str], run: Path, output: Path) -> str:
    """Fill the folder and return its page; ``translator.json`` is written last.

    Args:
        pair: the languages, as ``en-cs``.
        names: of the systems.
        run: folder of the workflow.
        output: the folder; each system gets one below it.
    """
    systems = {name: read_system(name) for name in names}
    scores = {}
    for subset in ("valid", "test"):
        scores[subset] = json.loads((run / f"scores-{subset}.json").read_text(encoding="utf-8"))
    titles = {name: system.title for name, system in systems.items()}
    benchmarks = run / "benchmarks"
    costs = {name: read_cost(benchmarks, name) for name in systems}
    content = describe(titles, scores, costs)
    for system in systems.values():
        _copy_system(system, pair, run, output / system.name)
    has_masked_lm = (benchmarks / "train-masked_lm.tsv").is_file()
    text = render(pair, content, read_cost(benchmarks, "masked_lm") if has_masked_lm else {})
    (output / "README.md").write_text(text, encoding="utf-8")
    description = json.dumps(content, indent=2) + "\n"
    (output / "translator.json").write_text(description, encoding="utf-8")
    return text


def _copy_system(system: System, pair: str, run: Path, folder: Path) -> None:
    """Copy a system's model, pieces and dictionaries, and write its options of the search."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "averages" / f"{system.name}.pt", folder / "model.pt")
    dictionaries = [f"dict.{language}.txt" for language in pair.split("-")]
    for file in ("sentencepiece.bpe.model", *dictionaries):
        shutil.copyfile(run / "bin" / file, folder / file)
    search = {name: system.translate[name] for name in system.translate if name not in NO_SEARCH}
    text = json.dumps(search, indent=2) + "\n"
    (folder / "search.json").write_text(text, encoding="utf-8")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--pair", help="languages, as en-cs")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="of files in systems/")
    parser.add_argument("--run", type=Path, default=Path(), help="folder of the workflow")
    parser.add_argument("--output", type=Path, help="folder of the translator")
    parser.add_argument("--show", metavar="OUT", help="print the page of the translator below OUT")
    args = parser.parse_args(argv)
    if args.show:
        print(show(args.show))
    elif args.pair and args.systems and args.output:
        build(args.pair, args.systems, args.run, args.output)
    else:
        parser.error("valid: --pair, --systems and --output, or --show OUT")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
