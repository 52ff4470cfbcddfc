"""Eq. 4 equals slow loops over stock models; inputs, files and options that do not fit are refused."""

import math

import pytest
import torch

from fairseq_plugins.analysis.language_distance import PretrainedSequenceModel, distance_of
from fairseq_plugins.analysis.sequence_models import read_sequence_model
from fairseq_plugins.analysis.vectors import last_token_vectors
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.commands import analysis as commands
from tests import nlu_builders
from tests.nlu_builders import EOS, LANGUAGES, PAD, PIECES
from tests.unit.analysis.commands import refused, run, written

SYMBOLS = [*nlu_builders.SPECIAL, *PIECES, *nlu_builders.tags(LANGUAGES), "<mask>"]
ENGLISH = ["p1 p2 p3", "p7", "p4 p4 p5 p6 p9", "p11 p2"]
GERMAN = ["p10 p3", "p8 p8 p8", "p19", "p5 p1 p2 p17"]


def ids(*symbols):
    return torch.tensor([SYMBOLS.index(symbol) for symbol in symbols])


@torch.no_grad()
def slow_embedding(model, line, tag, form="mbart"):
    """The decoder's output at the last piece, sentence by sentence, from the formats written out."""
    pieces = line.split()
    source, previous, last = {
        "mbart": ([*pieces, "</s>", tag], [tag, *pieces, "</s>"], len(pieces)),
        "mbart50": ([tag, *pieces, "</s>"], ["</s>", tag, *pieces], len(pieces) + 1),
    }[form]
    tokens = ids(*source)[None]
    states = model(tokens, torch.tensor([len(source)]), ids(*previous)[None], features_only=True)[0]
    return states[0, last].tolist()


def slow_distance(model, form="mbart"):
    total = 0.0
    for english, german in zip(ENGLISH, GERMAN):
        x, y = slow_embedding(model, english, "[en_XX]", form), slow_embedding(model, german, "[de_DE]", form)
        total += sum((a - b) ** 2 for a, b in zip(x, y))
    return math.sqrt(total)


def write_texts(folder, english=ENGLISH):
    source, target = written(folder / "text.en", *english), written(folder / "text.de", *GERMAN)
    line = "--cpu --sentencepiece none --source-lang en --target-lang de"
    return ["--source", source, "--target", target, *line.split()]


def loaded(path, *line):
    texts = "--source x --target x --source-lang en --target-lang de --cpu --sentencepiece none"
    args = commands.COMMANDS["language-distance"].build_parser().parse_args([str(path), *texts.split(), *line])
    return PretrainedSequenceModel(str(path), "model", args)


def test_a_distance_by_hand():
    """Squared distances 25 and 0; of all four pairs 25, 1, 20 and 0."""
    found = distance_of(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[3.0, 4.0], [1.0, 0.0]]), "x")
    assert found[:3] == ("x", 2, 2)
    assert found.distance == pytest.approx(5.0)
    assert found.normalised == pytest.approx(5 / math.sqrt(2))
    assert found.any_two == pytest.approx(math.sqrt(46 / 4))
    assert found.ratio == pytest.approx(5 / math.sqrt(2) / math.sqrt(46 / 4))
    same = distance_of(torch.ones(3, 2), torch.ones(3, 2), "x")
    assert (same.distance, same.any_two, same.ratio) == (0.0, 0.0, None)


@pytest.mark.parametrize("form", ["mbart", "mbart50"])
def test_the_command_equals_eq_4_in_loops(form, tmp_path, capsys):
    model = nlu_builders.mbart_cc25(tmp_path / "cc25")
    line = [tmp_path / "cc25", *write_texts(tmp_path), "--max-tokens", "14", "--input-format", form]
    (row,) = run("language-distance", tmp_path / "x", *line, "--tsv", tmp_path / "x.tsv")["rows"]
    expected = slow_distance(model, form)
    assert row["distance"] == pytest.approx(expected, rel=1e-5)
    assert row["normalised"] == pytest.approx(expected / 2, rel=1e-5)
    assert (row["model"], row["n"], row["width"]) == ("cc25", 4, nlu_builders.WIDTH)
    assert (tmp_path / "x.tsv").read_text(encoding="utf-8").split("\n")[1].split("\t")[:3] == ["cc25", "4", "16"]
    assert f"{expected:.3f}"[:-1] in capsys.readouterr().out


@pytest.mark.parametrize("max_tokens", [1, 13])
def test_a_batch_is_the_same_as_single_sentences(max_tokens, tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    found = loaded(tmp_path, "--max-tokens", str(max_tokens)).embeddings(ENGLISH, "en")
    model = loaded(tmp_path).model
    expected = torch.tensor([slow_embedding(model, line, "[en_XX]") for line in ENGLISH])
    assert (expected[0] - expected[1]).abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


STAGES = ["multilingual_denoising", "translation_from_pretrained_bart", "code_switching_restore"]


@pytest.mark.parametrize("task", STAGES)
def test_checkpoints_of_the_stages_tell_their_format(task, tmp_path):
    model = nlu_builders.mbart_cc25(tmp_path / "cc25")
    model.options["encoder_embed_path"] = "/no/such/file"  # the values of the checkpoint count
    options = {"_name": task, "langs": ",".join(LANGUAGES), "add_lang_token": True}
    path = nlu_builders.stock_checkpoint(tmp_path / "run" / "checkpoint_best.pt", model, options)
    found = loaded(path, "--dict", str(tmp_path / "cc25" / "dict.txt"))
    assert (found.task, found.inputs.input_format.name) == (task, "mbart")
    assert not found.model.training
    expected = torch.tensor([slow_embedding(model, GERMAN[0], "[de_DE]")])
    torch.testing.assert_close(found.embeddings(GERMAN[:1], "de"), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_hugging_face_folder(tmp_path):
    import transformers

    theirs = nlu_builders.huggingface(transformers, "mbart", tmp_path, len(SYMBOLS), decoder_layers=3)
    found = read_sequence_model(str(tmp_path), read_encoder(tmp_path))
    assert found.task is None
    rows = [ids("p3", "p1", "p4", "</s>", "[de_DE]"), ids("p2", "</s>", "[en_XX]")]
    for row, vector in zip(rows, last_token_vectors(found.model, rows, EOS, PAD)):
        states = theirs.model(input_ids=row[None], decoder_input_ids=row.roll(1)[None]).last_hidden_state
        torch.testing.assert_close(vector, states[0, len(row) - 2], rtol=0, atol=1e-5)


def test_mistakes_are_refused_before_the_models_are_read(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    line, main = [tmp_path / "none", *write_texts(tmp_path)], "language-distance"
    assert "--source-lang and --target-lang are both de" in refused(capsys, main, *line, "--source-lang", "de")
    write_texts(tmp_path, ENGLISH[:2])
    assert "got --source 2, --target 4" in refused(capsys, main, *line)
    nlu_builders.mbart_cc25(tmp_path / "none")
    message = refused(capsys, main, *line, "--sentences", "2", "--target-lang", "fr")
    assert "language fr: --input-format mbart needs the symbol of one language" in message
    assert "ar_AR,de_DE,en_XX" in message
