"""Test the language distance: equation 4 in slow loops over stock models, and bad input."""

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
from tests.unit.analysis.commands import read_refusal, run, write_lines

SYMBOLS = [*nlu_builders.SPECIAL, *PIECES, *nlu_builders.tags(LANGUAGES), "<mask>"]
ENGLISH = ["p1 p2 p3", "p7", "p4 p4 p5 p6 p9", "p11 p2"]
GERMAN = ["p10 p3", "p8 p8 p8", "p19", "p5 p1 p2 p17"]


def ids(*symbols):
    return torch.tensor([SYMBOLS.index(symbol) for symbol in symbols])


@torch.no_grad()
def embed_slowly(model, line, tag, form="mbart"):
    """Return the decoder's output at the last piece of one sentence."""
    pieces = line.split()
    source, previous, place = {
        "mbart": ([*pieces, "</s>", tag], [tag, *pieces, "</s>"], len(pieces)),
        "mbart50": ([tag, *pieces, "</s>"], ["</s>", tag, *pieces], len(pieces) + 1),
    }[form]
    lengths = torch.tensor([len(source)])
    output = model(ids(*source)[None], lengths, ids(*previous)[None], features_only=True)
    return output[0][0, place]


def measure_slowly(model, form="mbart"):
    total = 0.0
    for english, german in zip(ENGLISH, GERMAN):
        x = embed_slowly(model, english, "[en_XX]", form)
        y = embed_slowly(model, german, "[de_DE]", form)
        total += sum((a - b) ** 2 for a, b in zip(x.tolist(), y.tolist()))
    return math.sqrt(total)


def write_texts(folder, english=ENGLISH):
    source = write_lines(folder / "text.en", *english)
    target = write_lines(folder / "text.de", *GERMAN)
    line = "--cpu --sentencepiece none --source-lang en --target-lang de"
    return ["--source", source, "--target", target, *line.split()]


def load_model(path, *line):
    texts = "--source x --target x --source-lang en --target-lang de --cpu --sentencepiece none"
    parser = commands.COMMANDS["language-distance"].build_parser()
    args = parser.parse_args([str(path), *texts.split(), *line])
    return PretrainedSequenceModel(str(path), "model", args)


def test_a_distance_by_hand():
    """The pairs have squared distances 25 and 0; all four combinations 25, 1, 20 and 0."""
    x, y = torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    row = distance_of(x, y, "x")
    assert row[:3] == ("x", 2, 2)
    assert row.distance == pytest.approx(5.0)
    assert row.normalised == pytest.approx(5 / math.sqrt(2))
    assert row.any_two == pytest.approx(math.sqrt(46 / 4))
    assert row.ratio == pytest.approx(5 / math.sqrt(2) / math.sqrt(46 / 4))
    equal = distance_of(torch.ones(3, 2), torch.ones(3, 2), "x")
    assert (equal.distance, equal.any_two, equal.ratio) == (0.0, 0.0, None)


@pytest.mark.parametrize("form", ["mbart", "mbart50"])
def test_the_command_equals_eq_4_in_loops(form, tmp_path, capsys):
    model = nlu_builders.mbart_cc25(tmp_path / "cc25")
    options = ["--max-tokens", "14", "--input-format", form, "--tsv", tmp_path / "x.tsv"]
    line = [tmp_path / "cc25", *write_texts(tmp_path), *options]
    (row,) = run("language-distance", tmp_path / "x", *line)["rows"]
    expected = measure_slowly(model, form)
    assert row["distance"] == pytest.approx(expected, rel=1e-5)
    assert row["normalised"] == pytest.approx(expected / 2, rel=1e-5)
    assert (row["model"], row["n"], row["width"]) == ("cc25", 4, nlu_builders.WIDTH)
    table = (tmp_path / "x.tsv").read_text(encoding="utf-8").split("\n")
    assert table[1].split("\t")[:3] == ["cc25", "4", "16"]
    assert f"{expected:.3f}"[:-1] in capsys.readouterr().out


@pytest.mark.parametrize("max_tokens", [1, 13])
def test_a_batch_gives_what_each_sentence_gives_alone(max_tokens, tmp_path):
    nlu_builders.mbart_cc25(tmp_path)
    model = load_model(tmp_path, "--max-tokens", str(max_tokens))
    expected = torch.stack([embed_slowly(model.model, line, "[en_XX]") for line in ENGLISH])
    assert (expected[0] - expected[1]).abs().max() > 0.1
    vectors = model.embeddings(ENGLISH, "en")
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-5)


TASKS = ["multilingual_denoising", "translation_from_pretrained_bart", "code_switching_restore"]


@pytest.mark.parametrize("task", TASKS)
def test_checkpoints_tell_their_input_format(task, tmp_path):
    stock = nlu_builders.mbart_cc25(tmp_path / "cc25")
    stock.options["encoder_embed_path"] = "/no/such/file"  # the values of the checkpoint count
    options = {"_name": task, "langs": ",".join(LANGUAGES), "add_lang_token": True}
    path = tmp_path / "run" / "checkpoint_best.pt"
    nlu_builders.stock_checkpoint(path, stock, options)
    model = load_model(path, "--dict", str(tmp_path / "cc25" / "dict.txt"))
    assert (model.task, model.inputs.input_format.name) == (task, "mbart")
    assert not model.model.training
    expected = embed_slowly(stock, GERMAN[0], "[de_DE]")[None]
    vectors = model.embeddings(GERMAN[:1], "de")
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_hugging_face_folder_gives_the_states_of_transformers(tmp_path):
    import transformers

    vocab = len(SYMBOLS)
    theirs = nlu_builders.huggingface(transformers, "mbart", tmp_path, vocab, decoder_layers=3)
    sequence_model = read_sequence_model(str(tmp_path), read_encoder(tmp_path))
    assert sequence_model.task is None
    rows = [ids("p3", "p1", "p4", "</s>", "[de_DE]"), ids("p2", "</s>", "[en_XX]")]
    vectors = last_token_vectors(sequence_model.model, rows, EOS, PAD)
    for row, vector in zip(rows, vectors):
        output = theirs.model(input_ids=row[None], decoder_input_ids=row.roll(1)[None])
        expected = output.last_hidden_state[0, len(row) - 2]
        torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)


def test_bad_input_is_refused_before_the_model_is_read(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    line = ["language-distance", tmp_path / "none", *write_texts(tmp_path)]
    message = read_refusal(capsys, *line, "--source-lang", "de")
    assert "--source-lang and --target-lang are both de" in message
    write_texts(tmp_path, ENGLISH[:2])
    assert "--source 2, --target 4" in read_refusal(capsys, *line)
    nlu_builders.mbart_cc25(tmp_path / "none")
    message = read_refusal(capsys, *line, "--sentences", "2", "--target-lang", "fr")
    assert "language fr: --input-format mbart" in message and "ar_AR,de_DE,en_XX" in message
