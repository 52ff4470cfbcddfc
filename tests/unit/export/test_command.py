"""Which models ``export`` takes, for which pairs, with which options; and what ``model.json`` says of text and search."""

from argparse import Namespace

import pytest
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf
from torch import nn

from fairseq_plugins.__main__ import main
from fairseq_plugins.export import command, slots
from fairseq_plugins.translate import Translator
from tests import builders


@pytest.mark.parametrize(
    ("stored", "given", "pairs"),
    [
        (("de", "en", None), (None, None), []),
        ((None, None, "de-en, fr-en"), (None, None), [("de", "en"), ("fr", "en")]),
        ((None, None, ["de-en", "fr-en"]), (None, None), [("de", "en"), ("fr", "en")]),
        ((None, None, "de-en,fr-en"), ("fr", "en"), []),
    ],
)
def test_the_pairs_of_a_model(stored, given, pairs):
    options = Namespace(**dict(zip(("source_lang", "target_lang", "lang_pairs"), stored)))
    assert command.pairs_of(options, given) == pairs


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.pt"
    path.touch()
    return str(path)


def refused(capsys, *line):
    with pytest.raises(SystemExit) as stopped:
        main(["export", *map(str, line)])
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--format", "safetensors", "--int8"], "--int8: has no meaning with --format safetensors"),
        (["--format", "safetensors", "--beam", "4"], "--beam: has no meaning with --format safetensors"),
        (["--half"], "--half: has no meaning with --format onnx"),
        (["--nbest", "4"], "--nbest: the runtime does not read it; valid: --beam, "),
        (["--system", "at"], "--system at: MODEL .* is no folder of several systems"),
    ],
)
def test_options_that_nothing_would_read(line, message, checkpoint, tmp_path, capsys):
    shown = refused(capsys, checkpoint, tmp_path / "out", *line)
    assert pytest.raises(ValueError, match=message).matches(ValueError(shown))
    assert not (tmp_path / "out").exists()


def test_packages_that_are_missing_are_named(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None if name == "onnxscript" else name)
    shown = refused(capsys, checkpoint, tmp_path / "out")
    assert "needs onnxscript, which is not installed: pip install 'fairseq_plugins[onnx]'" in shown


def test_a_folder_that_is_taken_and_a_model_of_another_kind(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.encoders, "is_encoder", lambda _: False)
    monkeypatch.setattr(command, "load", lambda *_: (Namespace(model=nn.Linear(1, 1)), []))
    shown = refused(capsys, checkpoint, tmp_path / "out")
    assert f"MODEL {checkpoint}: is a Linear, which cannot be exported; valid: " in shown and "SGAModel" in shown
    assert f"FOLDER {tmp_path}: has model.pt already" in refused(capsys, checkpoint, tmp_path)


def test_what_is_said_of_text_and_search(tmp_path):
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_dictionary(tmp_path, "fr")
    task = builders.read_task(tmp_path, max_source_positions=12, _name="sga_translation")
    task.cfg = OmegaConf.structured(task.cfg)
    model = builders.sga_model(alignment="mask_predict", fill_blanks=True)
    task.cfg.length_beam = 2
    task.cfg.iter_decode_blank_penalty = 1.5
    generator = task.build_generator([model], GenerationConfig(iter_decode_max_iter=7, iter_decode_force_max_iter=True))
    cfg = Namespace(tokenizer=None, bpe=None)
    content = slots.content(Translator(cfg, task, model, generator, []), [("de", "en"), ("fr", "en")])
    assert (content.kind, content.architecture, list(content.graphs)) == (
        "slots",
        "sga",
        ["encoder", "alignment", "denoising"],
    )
    more = {name: content.graphs[name].module.bias - model.projection[1] for name in ("alignment", "denoising")}
    assert {name: bias[builders.BOS].item() for name, bias in more.items()} == {"alignment": 0.0, "denoising": -1.5}
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *builders.piece_names(), "<mask>"]
    assert content.files == {"vocabulary.txt": "".join(f"{symbol}\n" for symbol in symbols)}
    around = {"source_prefix": [builders.BOS], "source_suffix": [builders.EOS], "target_prefix": []}
    assert content.description == {
        "vocabulary": {"source": "vocabulary.txt", "target": "vocabulary.txt"},
        "pieces": None,
        "symbols": {"bos": builders.BOS, "pad": builders.PAD, "eos": builders.EOS, "unk": builders.UNK},
        "pairs": [{"source": source, "target": "en", **around} for source in ("de", "fr")],
        "limits": {"source_tokens": 12, "target_tokens": model.max_positions()[1]},
        "ignored": [builders.BOS, builders.PAD, builders.EOS, builders.MASK],
        "search": {"max_iter": 7, "adaptive": False, "mask_predict_iterations": 4, "length_beam": 2},
        "slots": {
            "upsample": 2,
            "blank": builders.BOS,
            "mask": builders.MASK,
            "denoiser": True,
            "fill_blanks": True,
            "alignment": "mask_predict",
            "lengths": builders.POSITIONS // 2,
        },
    }
    cfg.bpe = Namespace(_name="fastbpe")
    with pytest.raises(
        ValueError, match="--bpe fastbpe: the runtime has no such tokenizer; valid: --bpe sentencepiece"
    ):
        slots.content(Translator(cfg, task, model, generator, []), [("de", "en")])
    generator.beam = Namespace(size=3)
    with pytest.raises(ValueError, match="--iter-decode-ctc-beam 3: the runtime takes the best path"):
        slots.content(Translator(cfg, task, model, generator, []), [("de", "en")])
    generator.beam, model.alignment = None, "dag"
    with pytest.raises(ValueError, match="--alignment dag: the runtime has no graph of slots"):
        slots.content(Translator(cfg, task, model, generator, []), [("de", "en")])
