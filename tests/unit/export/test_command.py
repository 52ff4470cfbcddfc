"""Test which models and options ``export`` takes, and how ``model.json`` describes them."""

from argparse import Namespace

import pytest
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf
from torch import nn

from fairseq_plugins.__main__ import main
from fairseq_plugins.export import command, slots
from fairseq_plugins.translate import Translator
from tests import builders


@pytest.mark.cases(
    "source_lang target_lang lang_pairs languages expected",
    ("de", "en", None, (None, None), []),
    (None, None, "de-en, fr-en", (None, None), [("de", "en"), ("fr", "en")]),
    (None, None, ["de-en", "fr-en"], (None, None), [("de", "en"), ("fr", "en")]),
    (None, None, "de-en,fr-en", ("fr", "en"), []),
)
def test_a_model_of_several_pairs_is_exported_for_all_unless_languages_are_named(
    source_lang, target_lang, lang_pairs, languages, expected
):
    options = Namespace(source_lang=source_lang, target_lang=target_lang, lang_pairs=lang_pairs)
    assert command.pairs_of(options, languages) == expected


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.pt"
    path.touch()
    return path


def export_error(capsys, *words):
    """Run an export that fails; return what it prints to stderr."""
    with pytest.raises(SystemExit) as exit_info:
        main(["export", *map(str, words)])
    assert exit_info.value.code == 2
    return capsys.readouterr().err


@pytest.mark.cases(
    "words message",
    (["--format", "safetensors", "--int8"], "--int8: .* --format safetensors"),
    (["--format", "safetensors", "--beam", "4"], "--beam: .* --format safetensors"),
    (["--format", "safetensors", "--encoder"], "--encoder: .* --format safetensors"),
    (["--half"], "--half: .* --format onnx"),
    (["--nbest", "4"], "--nbest: .*valid: --beam, "),
    (["--system", "at"], "--system at: "),
)
def test_options_without_meaning_are_refused(words, message, checkpoint, tmp_path, capsys):
    error = export_error(capsys, checkpoint, tmp_path / "out", *words)
    assert pytest.raises(ValueError, match=message).matches(ValueError(error))
    assert not (tmp_path / "out").exists()


def test_missing_packages_taken_folders_and_other_models_are_refused(
    checkpoint, tmp_path, capsys, monkeypatch
):
    assert f"FOLDER {tmp_path}: has model.pt already" in export_error(capsys, checkpoint, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(command, "PACKAGES", ("onnx", "missing_package"))
        error = export_error(capsys, checkpoint, tmp_path / "out")
    assert "needs missing_package" in error and "fairseq_plugins[onnx]" in error
    monkeypatch.setattr(command.encoders, "is_encoder", lambda _: False)
    monkeypatch.setattr(command, "load", lambda *_: (Namespace(model=nn.Linear(1, 1)), []))
    error = export_error(capsys, checkpoint, tmp_path / "out")
    assert f"MODEL {checkpoint}: is a Linear" in error and "SGAModel" in error


@pytest.fixture
def translator(tmp_path):
    """An SGA model that aligns by mask-predict, of a task with options of its search."""
    builders.write_pair(tmp_path, "train", "de", "en")
    builders.write_dictionary(tmp_path, "fr")
    task = builders.read_task(tmp_path, max_source_positions=12, _name="sga_translation")
    task.cfg = OmegaConf.structured(task.cfg)
    task.cfg.length_beam = 2
    task.cfg.iter_decode_blank_penalty = 1.5
    model = builders.sga_model(alignment="mask_predict", fill_blanks=True)
    generation = GenerationConfig(iter_decode_max_iter=7, iter_decode_force_max_iter=True)
    generator = task.build_generator([model], generation)
    return Translator(Namespace(tokenizer=None, bpe=None), task, model, generator, [])


def test_the_content_of_a_folder_describes_text_and_search(translator):
    model = translator.model
    content = slots.content(translator, [("de", "en"), ("fr", "en")])
    assert (content.kind, content.architecture) == ("slots", "sga")
    assert list(content.graphs) == ["encoder", "alignment", "denoising"]
    bias = {name: content.graphs[name].module.bias for name in ("alignment", "denoising")}
    blank_bias = {name: (bias[name] - model.projection[1])[builders.BOS].item() for name in bias}
    assert blank_bias == {"alignment": 0.0, "denoising": -1.5}
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *builders.piece_names(), "<mask>"]
    assert content.files == {"vocabulary.txt": "".join(f"{symbol}\n" for symbol in symbols)}
    affixes = {
        "source_prefix": [builders.BOS],
        "source_suffix": [builders.EOS],
        "target_prefix": [],
    }
    assert content.description == {
        "vocabulary": {"source": "vocabulary.txt", "target": "vocabulary.txt"},
        "pieces": None,
        "symbols": {
            "bos": builders.BOS,
            "pad": builders.PAD,
            "eos": builders.EOS,
            "unk": builders.UNK,
        },
        "pairs": [{"source": source, "target": "en", **affixes} for source in ("de", "fr")],
        "limits": {"source_tokens": 12, "target_tokens": model.max_positions()[1]},
        "ignored": [builders.BOS, builders.PAD, builders.EOS, builders.MASK],
        "search": {
            "max_iter": 7,
            "adaptive": False,
            "mask_predict_iterations": 4,
            "length_beam": 2,
        },
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


def test_tokenizers_and_searches_that_the_runtime_lacks_are_refused(translator):
    def refuse(message):
        with pytest.raises(ValueError, match=message):
            slots.content(translator, [("de", "en")])

    translator.cfg.bpe = Namespace(_name="fastbpe")
    refuse("--bpe fastbpe: .*valid: --bpe sentencepiece")
    translator.cfg.tokenizer = Namespace(_name="moses")
    refuse("--tokenizer moses")
    translator.generator.beam = Namespace(size=3)
    refuse("--iter-decode-ctc-beam 3")
    translator.generator.beam, translator.model.alignment = None, "dag"
    refuse("--alignment dag")
