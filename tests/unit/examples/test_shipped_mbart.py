"""The shipped small mBART: small, described truly, with matching pieces; it restores better than chance."""

from pathlib import Path

import sentencepiece
import torch
from fairseq import checkpoint_utils

from fairseq_plugins.checkpoints.export import import_checkpoint
from fairseq_plugins.checkpoints.reading import read_checkpoint

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "miniature" / "mbart" / "model"
LANGUAGES = ["[en]", "[de]", "[fr]", "[es]"]


def test_card_size_and_dictionary_are_true(tmp_path):
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 10_500_000
    import_checkpoint(FOLDER, tmp_path / "mbart.pt")  # compares fingerprint and dictionary
    tensors = read_checkpoint(tmp_path / "mbart.pt")["model"]
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    storages = {tensor.data_ptr(): tensor.numel() for tensor in tensors.values()}
    assert f"{sum(storages.values()):,}" in card.replace("\n", " ")
    config = (FOLDER / "config.json").read_text(encoding="utf-8")
    fingerprint = config.split('"fingerprint": "')[1].split('"')[0]
    assert f"`{fingerprint}`" in card
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / "sentencepiece.bpe.model"))
    entries = [line.split(" ")[0] for line in (FOLDER / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert entries == [pieces.id_to_piece(index) for index in range(3, pieces.get_piece_size())]
    assert len(tensors["encoder.embed_tokens.weight"]) == 4 + len(entries) + len(LANGUAGES) + 1


def test_it_is_a_denoising_model(tmp_path):
    """Read by fairseq: a sentence in its own language is more likely than the same pieces in another order."""
    import_checkpoint(FOLDER, tmp_path / "mbart.pt")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "mbart.pt")])
    dictionary = task.source_dictionary
    assert [dictionary[index] for index in range(len(dictionary) - 5, len(dictionary))] == [*LANGUAGES, "<mask>"]
    model.float().eval()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / "sentencepiece.bpe.model"))
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
