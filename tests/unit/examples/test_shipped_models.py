"""The shipped frozen models: readable, small, described truly, with matching pieces, and better than chance."""

from pathlib import Path

import pytest
import sentencepiece
import torch
from fairseq import checkpoint_utils

from data_prep.toy.corpus import generate
from examples import export_masked_lm
from fairseq_plugins import checkpoints
from fairseq_plugins.checkpoints.export import import_checkpoint
from fairseq_plugins.checkpoints.reading import read_checkpoint
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FOLDER = EXAMPLES / "quickstart" / "masked_lm"
LIMITS = {FOLDER: 5_000_000, EXAMPLES / "sga" / "masked_lm": 10_500_000}


def entries_of(folder):
    """Those of the dictionary, which are the pieces of its model."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    entries = [line.split(" ")[0] for line in (folder / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert entries == [pieces.id_to_piece(index) for index in range(3, pieces.get_piece_size())]
    return entries


@pytest.mark.parametrize("folder", LIMITS, ids=lambda folder: folder.parent.name)
def test_card_size_and_dictionary_are_true(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LIMITS[folder]
    found = checkpoints.read_masked_lm(folder)
    assert f"`{found.fingerprint}`" in (folder / "README.md").read_text(encoding="utf-8")
    entries = entries_of(folder)
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


MBART = EXAMPLES / "miniature" / "mbart" / "model"
LANGUAGES = ["[en]", "[de]", "[fr]", "[es]"]


def test_mbarts_card_size_and_dictionary_are_true(tmp_path):
    assert sum(path.stat().st_size for path in MBART.iterdir()) <= 10_500_000
    import_checkpoint(MBART, tmp_path / "mbart.pt")  # compares fingerprint and dictionary
    tensors = read_checkpoint(tmp_path / "mbart.pt")["model"]
    card = (MBART / "README.md").read_text(encoding="utf-8")
    storages = {tensor.data_ptr(): tensor.numel() for tensor in tensors.values()}
    assert f"{sum(storages.values()):,}" in card.replace("\n", " ")
    config = (MBART / "config.json").read_text(encoding="utf-8")
    fingerprint = config.split('"fingerprint": "')[1].split('"')[0]
    assert f"`{fingerprint}`" in card
    entries = entries_of(MBART)
    assert len(tensors["encoder.embed_tokens.weight"]) == 4 + len(entries) + len(LANGUAGES) + 1


def test_it_is_a_denoising_model(tmp_path):
    """Read by fairseq: a sentence in its own language is more likely than the same pieces in another order."""
    import_checkpoint(MBART, tmp_path / "mbart.pt")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "mbart.pt")])
    dictionary = task.source_dictionary
    assert [dictionary[index] for index in range(len(dictionary) - 5, len(dictionary))] == [*LANGUAGES, "<mask>"]
    model.float().eval()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(MBART / "sentencepiece.bpe.model"))
    for text, language in (
        ("a man in a blue shirt is standing on a street .", "[en]"),
        ("ein mann steht auf der straße .", "[de]"),
    ):
        row = [dictionary.index(piece) for piece in pieces.encode(text, out_type=str)]
        assert dictionary.unk() not in row
        lang, end = dictionary.index(language), dictionary.eos()
        source = torch.tensor([[*row, end, lang]])
        losses = []
        for target in (row, row[::-1]):
            with torch.no_grad():
                logits = model(source, torch.tensor([len(row) + 2]), torch.tensor([[lang, *target]]))[0]
            losses.append(float(torch.nn.functional.cross_entropy(logits[0], torch.tensor([*target, end]))))
        assert losses[0] < 0.5 * losses[1]
