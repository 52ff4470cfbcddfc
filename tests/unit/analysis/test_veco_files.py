"""The analysis commands read a VECO of every layout, and retrieval takes one of its middle layers."""

import json
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
import torch

from fairseq_plugins.analysis import cka, retrieval, singular_values
from fairseq_plugins.models.nlu import load_text_encoder
from tests import nlu_builders, veco_files
from tests.nlu_builders import PIECES
from tests.unit.checkpoints import builders as masked_lms

KINDS = ("released", "pretrained", "folder")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    """A VECO of each layout; none but the released one has its dictionary beside it."""
    root = tmp_path_factory.mktemp("veco")
    veco_files.released(root / "released")
    veco_files.pretrained(root / "pretrained" / "checkpoint_last.pt")
    veco_files.write_folder(root / "folder")
    return {
        "released": root / "released",
        "pretrained": root / "pretrained" / "checkpoint_last.pt",
        "folder": root / "folder",
    }


def dictionary(kind: str, folder: Path) -> Path:
    """The entries of dict.txt; ``<mask>`` is the model's last row."""
    return nlu_builders.write_dict(folder / "dict.txt", PIECES if kind != "folder" else PIECES[:18])


def sentences(path: Path, seed: int) -> Path:
    """Pieces, a sentence a line."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, 18, (20, 5), generator=generator).tolist()
    path.write_text("".join(" ".join(f"p{piece}" for piece in row) + "\n" for row in rows))
    return path


def run(room: Any, *line: Any) -> None:
    """The command; it must end well."""
    assert room.main([str(item) for item in line]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_retrieval_takes_a_middle_layer(models: Dict[str, Path], tmp_path: Path, kind: str) -> None:
    files = [sentences(tmp_path / name, seed) for name, seed in (("x.de", 1), ("x.en", 2))]
    layer = 9 if kind == "folder" else 1
    common = ["--cpu", "--sentencepiece", "none", "--dict", dictionary(kind, tmp_path), "--score", "cosine"]
    kept = ["--keep-vectors", tmp_path / "kept", "--json", tmp_path / "x.json"]
    run(retrieval, "tatoeba", models[kind], *common, *kept, "--pair", "de-en", *files, "--layer", layer)
    content = json.loads((tmp_path / "x.json").read_text())
    assert content["layer"] == layer and [row["layer"] for row in content["rows"]] == [layer]
    encoder = load_text_encoder(models[kind])
    for file in files:
        rows = [[0, *(4 + int(piece[1:]) for piece in line.split()), 2] for line in file.read_text().splitlines()]
        with torch.no_grad():
            expected = encoder(torch.tensor(rows))
        (found,) = (np.load(one) for one in (tmp_path / "kept").glob(f"*{file.suffix}.npy"))
        np.testing.assert_allclose(found[0], expected[layer].mean(1), rtol=0, atol=1e-6)
        assert np.abs(found[0] - expected[layer - 1].mean(1).numpy()).max() > 0.1


def test_cka_of_two_layouts_with_the_same_weights(models: Dict[str, Path], tmp_path: Path) -> None:
    """Embeddings are scaled in one of them only: layer 0 differs, and so does all that follows."""
    text, entries = sentences(tmp_path / "x.de", 1), dictionary("released", tmp_path)
    common = [
        "--cpu",
        "--sentencepiece",
        "none",
        "--dict",
        entries,
        "--text",
        f"de={text}",
        "--json",
        tmp_path / "x.json",
    ]
    both = {}
    for name, other in (("same", "pretrained"), ("other", "released")):
        run(cka, models["pretrained"], models[other], *common, "--permutations", 1)
        both[name] = [row["biased"] for row in json.loads((tmp_path / "x.json").read_text())["rows"]]
        assert len(both[name]) == nlu_builders.LAYERS + 1
    assert both["same"] == pytest.approx([1.0] * 3) and all(value < 0.999 for value in both["other"])


def test_singular_values_of_two_layouts_with_the_same_weights(models: Dict[str, Path], tmp_path: Path) -> None:
    run(singular_values, models["released"], models["pretrained"], "--json", tmp_path / "x.json")
    rows = json.loads((tmp_path / "x.json").read_text())["rows"]
    assert len(rows) == 6 * nlu_builders.LAYERS and all(row["distance"] == 0 for row in rows)
    run(singular_values, models["folder"], models["folder"], "--json", tmp_path / "x.json")
    assert len(json.loads((tmp_path / "x.json").read_text())["rows"]) == 6 * masked_lms.SIZES["layers"]
