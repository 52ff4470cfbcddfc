"""The folder of a translator: its systems, a table, and which one translates by default.

python -m recipes.report --pair en-cs --systems sga_lora at --output translator
python -m recipes.report --show runs/en-cs
"""

import argparse
import csv
import json
import shlex
import shutil
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

from .systems import read_system

NO_SEARCH = ("user-dir", "task", "batch-size", "remove-bpe")
"""Options of fairseq-generate that ``fairseq_plugins translate`` has from elsewhere."""
FIT = 20.0
GIST = 10.0
"""BLEU on validation: at least FIT reads as a translation of this kind of text, below GIST nothing can be relied on."""


FOLDER = "FOLDER"
NOTE = f"{FOLDER} is the path of this folder. In the checkout of fairseq_plugins:"
"""A folder may be moved: its page has this word in place of the path."""


def verdict(bleu: float) -> str:
    """Whether a system may be used, in a sentence."""
    needed = "More text, more hours or a larger pretrained model are needed."
    if bleu >= FIT:
        return "Fit for text like that of the training; other text was not tested."
    if bleu >= GIST:
        return f"Only for the gist: validation BLEU is below {FIT:g}. {needed}"
    return f"NOT FIT FOR USE: validation BLEU is below {GIST:g}. {needed}"


def cost(benchmarks: Path, system: str) -> Dict[str, float]:
    """Minutes and CPU minutes of a training, by Snakemake's benchmark file."""
    with open(benchmarks / f"train-{system}.tsv", encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file, delimiter="\t"))
    return {"minutes": float(row["s"]) / 60, "cpu_minutes": float(row["cpu_time"]) / 60}


def describe(
    systems: Mapping[str, str], scores: Mapping[str, Any], costs: Mapping[str, Mapping[str, float]]
) -> Dict[str, Any]:
    """What ``translator.json`` holds: per system its title, scores and costs; the default is the best on validation."""
    rows = {subset: {row["name"]: row for row in content["systems"]} for subset, content in scores.items()}
    found = {}
    for name, title in systems.items():
        found[name] = {"title": title, **costs.get(name, {})}
        for subset, by_name in rows.items():
            found[name][subset] = {key: by_name[name][key] for key in ("bleu", "chrf", "length_ratio")}
    best = max(found, key=lambda name: found[name]["valid"]["bleu"])
    signatures = {subset: content["signatures"] for subset, content in scores.items()}
    return {"default": best, "systems": found, "signatures": signatures["test"]}


def page(pair: str, content: Mapping[str, Any], shared: Mapping[str, float]) -> str:
    """The README of the folder, finding first."""
    source, target = pair.split("-")
    best = content["systems"][content["default"]]
    lines = [
        f"# Translator from {source} to {target}",
        "",
        f"**{verdict(best['valid']['bleu'])}** The default is {best['title']}, which is better on validation "
        f"(BLEU {best['valid']['bleu']:.1f}); on the test set it has {best['test']['bleu']:.1f}.",
        "",
        "| system | BLEU valid | BLEU test | chrF test | length / reference | minutes of training | CPU minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in content["systems"].items():
        test = one["test"]
        cells = [
            f"{one['title']} (`--system {name}`)",
            f"{one['valid']['bleu']:.1f}",
            f"{test['bleu']:.1f}",
            f"{test['chrf']:.1f}",
        ]
        cells += [f"{test['length_ratio']:.2f}", f"{one['minutes']:.0f}", f"{one['cpu_minutes']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    if shared:
        lines += [
            "",
            f"The masked language model under SGA had {shared['minutes']:.0f} minutes ({shared['cpu_minutes']:.0f} of CPU) before.",
        ]
    lines += ["", *(f"{name}: {signature}" for name, signature in content["signatures"].items()), ""]
    lines += [NOTE, "", "```bash", "source .venv/bin/activate"]
    lines += [f"fairseq-plugins translate {FOLDER} --input TEXT --output TRANSLATION"]
    lines += [f"make serve MODEL={FOLDER}   # over HTTP, and a page for browsers", "```", ""]
    return "\n".join(lines)


def show(output: str) -> str:
    """Return the page of the translator below ``output``, with this path in its commands, quoted for a shell."""
    text = (Path(output) / "translator" / "README.md").read_text(encoding="utf-8")
    path = f"./{output}" if output.startswith("-") else output
    return text.replace(f"{NOTE}\n\n", "").replace(FOLDER, shlex.quote(path))


def build(pair: str, names: Sequence[str], run: Path, output: Path) -> str:
    """Fill the folder; returns its page. Each system has its search options beside it; ``translator.json`` is written last."""
    systems = {name: read_system(name) for name in names}
    scores = {
        subset: json.loads((run / f"scores-{subset}.json").read_text(encoding="utf-8")) for subset in ("valid", "test")
    }
    titles = {name: system.title for name, system in systems.items()}
    content = describe(titles, scores, {name: cost(run / "benchmarks", name) for name in systems})
    for name, system in systems.items():
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / "averages" / f"{name}.pt", folder / "model.pt")
        for file in ("sentencepiece.bpe.model", *(f"dict.{language}.txt" for language in pair.split("-"))):
            shutil.copyfile(run / "bin" / file, folder / file)
        search = {option: value for option, value in system.translate.items() if option not in NO_SEARCH}
        (folder / "search.json").write_text(json.dumps(search, indent=2) + "\n", encoding="utf-8")
    shared = cost(run / "benchmarks", "masked_lm") if (run / "benchmarks" / "train-masked_lm.tsv").is_file() else {}
    text = page(pair, content, shared)
    (output / "README.md").write_text(text, encoding="utf-8")
    (output / "translator.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return text


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="of files in systems/")
    parser.add_argument("--run", type=Path, default=Path())
    parser.add_argument("--output", type=Path)
    parser.add_argument("--show", metavar="OUT", help="print the page of the translator below OUT")
    args = parser.parse_args(argv)
    if args.show:
        print(show(args.show))
    elif args.pair and args.systems and args.output:
        build(args.pair, args.systems, args.run, args.output)
    else:
        parser.error("--pair, --systems and --output are needed; valid without them: --show OUT")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
