"""Plot quality against speed of trained systems, one panel per batch size.

``python -m benchmarks.results`` draws from the JSON files alone: the same numbers give the same
bytes.
"""

from pathlib import Path
from typing import Any, Dict, List

from data_prep.scoring.score import TITLES
from fairseq_plugins.analysis import plots

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results" / "benchmarks"


def panels(content: Dict[str, Any]) -> Dict[int, str]:
    """Return batch size -> key of the sentences per second in each row."""
    keys = {1: "sentences_per_s", int(content["options"]["batch"]): "batch_sentences_per_s"}
    rows = content["results"]
    return {size: key for size, key in keys.items() if all(key in row for row in rows)}


def make_curves(content: Dict[str, Any], speed: str) -> List[plots.Curve]:
    """Return one curve per system of the table; its decodings are points, slowest first."""
    points: Dict[str, List[Any]] = {}
    score = score_name(content)
    for row in content["results"]:
        system = row["system"].rpartition(", ")[0]
        points.setdefault(system, []).append((row[speed], row[score]))
    curves = []
    for system, pairs in points.items():
        speeds, scores = map(list, zip(*sorted(pairs)))
        curves.append(plots.Curve(system, speeds, scores))
    return curves


def score_name(content: Dict[str, Any]) -> str:
    """Return the name of the score of the outputs."""
    return str(content["options"].get("score", "bleu"))


def panel_path(content: Dict[str, Any], size: int) -> Path:
    """Return the file of a panel."""
    return FOLDER / f"{content['file']}-batch-{size}.svg"


def draw(content: Dict[str, Any]) -> None:
    """Draw each panel.

    Raises:
        MissingLibrary: matplotlib is not installed.
    """
    FOLDER.mkdir(exist_ok=True)
    axes = ("sentences a second", TITLES[score_name(content)])
    for size, speed in panels(content).items():
        title = f"quality against speed, batch {size}: points of a system are its decodings"
        path = str(panel_path(content, size))
        plots.draw_curves(path, make_curves(content, speed), *axes, title)


def links(content: Dict[str, Any]) -> List[str]:
    """Return the lines of the page that show the panels, or none before the numbers are stored."""
    if "file" not in content:
        return []
    title = TITLES[score_name(content)]
    images = []
    for size in panels(content):
        path = f"{FOLDER.name}/{panel_path(content, size).name}"
        images.append(f"![{title} over sentences a second, batch {size}]({path})")
    text = "Quality against speed; the points of a system are its decodings:"
    return ["", text, "", "\n\n".join(images)]
