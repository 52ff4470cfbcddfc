"""The shipped frozen models: readable, small, described truly, and with matching pieces; export and results pages."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from data_prep.toy.corpus import generate
from examples import export_masked_lm
from examples.sga import results
from fairseq_plugins import checkpoints
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FOLDER = EXAMPLES / "quickstart" / "masked_lm"
LIMITS = {FOLDER: 5_000_000, EXAMPLES / "sga" / "masked_lm": 10_500_000}


@pytest.mark.parametrize("folder", LIMITS, ids=lambda folder: folder.parent.name)
def test_card_size_and_dictionary_are_true(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LIMITS[folder]
    found = checkpoints.read_masked_lm(folder)
    assert f"`{found.fingerprint}`" in (folder / "README.md").read_text(encoding="utf-8")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    entries = [line.split(" ")[0] for line in (folder / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert entries == [pieces.id_to_piece(index) for index in range(3, pieces.get_piece_size())]
    assert found.sizes["vocab_size"] == len(entries) + 5


def test_it_has_learned_the_toy_languages() -> None:
    """A masked piece of an unseen German sentence is found with the English sentence beside it more often than not."""
    found = checkpoints.read_masked_lm(FOLDER)
    model = MaskedLM(MaskedLMSizes(**found.sizes)).eval()
    checkpoints.load(model, found.tensors)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / "sentencepiece.bpe.model"))
    right = total = 0
    for example in generate(7, {"test": 20}):
        source, target = ([index + 1 for index in pieces.encode(example.texts[lang])] for lang in ("en", "de"))
        place = len(target) // 2
        tokens = [0, *source, 2, 0, *target, 2]
        positions = [*range(2, len(source) + 4), *range(2, len(target) + 4)]
        answer = tokens[len(source) + 3 + place]
        tokens[len(source) + 3 + place] = found.sizes["vocab_size"] - 1
        with torch.no_grad():
            logits = model(torch.tensor([tokens]), torch.tensor([positions]))
        right += int(logits[0, len(source) + 3 + place].argmax()) == answer
        total += 1
    assert right / total > 0.7


def test_export_keeps_the_function(tmp_path: Path) -> None:
    fingerprint = export_masked_lm.export(
        FOLDER, FOLDER / "dict.txt", FOLDER / "sentencepiece.bpe.model", tmp_path / "out"
    )
    assert (
        fingerprint == checkpoints.read_masked_lm(FOLDER).fingerprint
    )  # half precision rounds half precision to itself


def test_results_page_is_built_from_scores_and_run_facts(tmp_path: Path) -> None:
    run: Any = {"trained_parameters": 1234567, "updates": 10, "train_seconds": 120.0, "mean_passes": {"3": 1.5}}
    run.update(validation=[{"num_updates": 5, "bleu": 7.25}], machine="2 CPU cores")
    for name in ("sga", "mbart"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(run))
    row = {"name": "sga/3", "bleu": 12.34, "chrf": 40.0, "length_ratio": 0.95, "p_value": 0.04}
    scores = {
        "systems": [row, {**row, "name": "mbart/mbart"}],
        "signatures": {"bleu": "sig", "chrf": "sig2"},
        "bootstrap": {"samples": 1000, "seed": 1},
    }
    page = results.render(tmp_path, scores)
    assert "| sga | 3 denoising passes at most (mean 1.50) | 1,234,567 | 10 | 2 | 12.3 | 40.0 | 0.950 | 0.040 |" in page
    assert "| mbart | beam 5 | 1,234,567 |" in page
    assert "- sga: 5: 7.2" in page and "- Machine: 2 CPU cores." in page
