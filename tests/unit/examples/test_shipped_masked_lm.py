"""The shipped frozen models: readable, small, described truly, and with matching pieces; export and results pages."""

from pathlib import Path

import pytest
import sentencepiece
import torch

from data_prep.toy.corpus import generate
from examples import export_masked_lm
from fairseq_plugins import checkpoints
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FOLDER = EXAMPLES / "quickstart" / "masked_lm"
LIMITS = {FOLDER: 5_000_000, EXAMPLES / "sga" / "masked_lm": 10_500_000}


@pytest.mark.parametrize("folder", LIMITS, ids=lambda folder: folder.parent.name)
def test_card_size_and_dictionary_are_true(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LIMITS[folder]
    found = checkpoints.read_masked_lm(folder)
    assert f"`{found.fingerprint}`" in (folder / "README.md").read_text(encoding="utf-8")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    entries = [line.split(" ")[0] for line in (folder / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert entries == [pieces.id_to_piece(index) for index in range(3, pieces.get_piece_size())]
    assert found.sizes["vocab_size"] == len(entries) + 5


def test_it_has_learned_the_toy_languages():
    """A masked piece of an unseen German sentence is found with the English sentence beside it more often than not."""
    found = checkpoints.read_masked_lm(FOLDER)
    model = MaskedLM(MaskedLMSizes(**found.sizes)).eval()
    checkpoints.load(model, found.tensors)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / "sentencepiece.bpe.model"))
    right = 0
    for example in generate(7, {"test": 20}):
        source, target = ([index + 1 for index in pieces.encode(example.texts[lang])] for lang in ("en", "de"))
        tokens = [0, *source, 2, 0, *target, 2]
        positions = [*range(2, len(source) + 4), *range(2, len(target) + 4)]
        place = len(source) + 3 + len(target) // 2
        answer, tokens[place] = tokens[place], found.sizes["vocab_size"] - 1
        with torch.no_grad():
            right += int(model(torch.tensor([tokens]), torch.tensor([positions]))[0, place].argmax()) == answer
    assert right / 20 > 0.7


def test_export_keeps_the_function(tmp_path):
    """Half precision rounds half precision to itself."""
    files = FOLDER / "dict.txt", FOLDER / "sentencepiece.bpe.model"
    fingerprint = export_masked_lm.export(FOLDER, *files, tmp_path / "out")
    assert fingerprint == checkpoints.read_masked_lm(FOLDER).fingerprint
