"""Quality against speed of the trained systems: the score of the timed outputs over sentences a second, a panel a batch size.

Drawn by ``python -m benchmarks.results`` from the JSON files alone: the same numbers give the same bytes.
"""

from pathlib import Path
from typing import Any, Dict, List

from data_prep.score import TITLES
from fairseq_plugins.analysis import plots

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results" / "benchmarks"


def panels(content: Dict[str, Any]) -> Dict[int, str]:
    """Batch size -> key of its sentences a second in every row."""
    found = {1: "sentences_per_s", int(content["options"]["batch"]): "batch_sentences_per_s"}
    return {size: key for size, key in found.items() if all(key in row for row in content["results"])}


def curves(content: Dict[str, Any], key: str) -> List[plots.Curve]:
    """A curve a system, in the order of the table; its points are its decodings, the slowest first."""
    points: Dict[str, List[Any]] = {}
    score = score_of(content)
    for row in content["results"]:
        points.setdefault(row["system"].rpartition(", ")[0], []).append((row[key], row[score]))
    return [plots.Curve(name, *map(list, zip(*sorted(found)))) for name, found in points.items()]


def score_of(content: Dict[str, Any]) -> str:
    """The score of the outputs."""
    return str(content["options"].get("score", "bleu"))


def path_of(content: Dict[str, Any], size: int) -> Path:
    """Where a panel lies."""
    return FOLDER / f"{content['file']}-batch-{size}.svg"


def draw(content: Dict[str, Any]) -> None:
    """Draw every panel.

    Raises:
        MissingLibrary: no matplotlib.
    """
    FOLDER.mkdir(exist_ok=True)
    for size, key in panels(content).items():
        title = f"quality against speed, batch {size}: points of a system are its decodings"
        plots.draw_curves(
            str(path_of(content, size)), curves(content, key), "sentences a second", TITLES[score_of(content)], title
        )


def links(content: Dict[str, Any]) -> List[str]:
    """Lines of the page that show the panels; none before the numbers are in a file."""
    if "file" not in content:
        return []
    shown = [
        f"![{TITLES[score_of(content)]} over sentences a second, batch {size}]({FOLDER.name}/{path_of(content, size).name})"
        for size in panels(content)
    ]
    return ["", "Quality against speed; the points of a system are its decodings:", "", "\n\n".join(shown)]
