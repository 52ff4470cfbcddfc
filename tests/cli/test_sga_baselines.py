"""The comparison systems of SGA under the stock commands, each in a subprocess: train, resume, generate."""

import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, List

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary
from sentencepiece import SentencePieceProcessor

from data_prep.io import read_lines
from data_prep.spm_train import TrainOptions, train
from data_prep.toy.corpus import generate
from fairseq_plugins.checkpoints import average
from tests import builders, data_bins

from .conftest import write_random_masked_lm

Run = Callable[..., Any]
COUNTS = {"train": {"de-en": 24, "fr-en": 16}, "valid": {"de-en": 24, "fr-en": 16}, "test": {"de-en": 9, "fr-en": 9}}
TAGGED = ["--task", "translation_multi_simple_epoch", "--lang-pairs", "de-en,fr-en", "--langs", "de,en,fr",
          "--encoder-langtok", "src", "--decoder-langtok"]  # fmt: skip
PAIR = ["--task", "translation", "-s", "de", "-t", "en"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: Any) -> Path:
    """A data-bin with two pairs, whose validation set is the training set, and a random masked LM of its dictionary."""
    root = tmp_path_factory.mktemp("baselines")
    (root / "bin").mkdir()
    for split, counts in COUNTS.items():
        for seed, (pair, count) in enumerate(counts.items(), start=split == "test"):
            data_bins.write_pair(root / "bin", split, *pair.split("-"), count=count, seed=seed)
    write_random_masked_lm(root / "masked_lm", builders.VOCAB, 1, root / "bin" / "dict.en.txt")
    return root


def sizes(*sides: str) -> List[Any]:
    options: List[Any] = []
    for side in sides:
        options += [f"--{side}-layers", 2, f"--{side}-embed-dim", 16, f"--{side}-ffn-embed-dim", 32]
        options += [f"--{side}-attention-heads", 2]
    return options


def training(data: Path, user_dir: str, save_dir: Path, *more: Any) -> List[Any]:
    """A tiny training run."""
    return [
        data, "--user-dir", user_dir, "--optimizer", "adam", "--lr", 0.01, "--max-sentences", 8, "--save-dir", save_dir,
        "--log-format", "json", "--num-workers", 0, "--seed", 5, "--cpu", "--dropout", 0.1, *more,
    ]  # fmt: skip


def losses(result: Any) -> List[float]:
    """Validation losses that a run logged."""
    return logged(result.stderr + result.stdout)


def logged(text: str) -> List[float]:
    lines = [line for line in text.splitlines() if ' | {"' in line]
    records = [json.loads(line[line.index(' | {"') + 3 :]) for line in lines]
    return [float(record["valid_loss"]) for record in records if "valid_loss" in record]


def state_of(path: Path) -> Any:
    return torch.load(path, weights_only=False)["model"]


def hypotheses(result: Any) -> int:
    return sum(line.startswith("H-") for line in result.stdout.splitlines())


SMOOTHED = ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]


def write_backbone(path: Path) -> Path:
    """A random multilingual transformer as the stock task would save it."""
    tagged = Dictionary()
    for symbol in [f"p{number}" for number in range(builders.PIECES)] + ["__de__", "__en__", "__fr__"]:
        tagged.add_symbol(symbol)
    shape = {"encoder_layers": 2, "decoder_layers": 2, "share_all_embeddings": True}
    for side in ("encoder", "decoder"):
        shape.update({f"{side}_embed_dim": 16, f"{side}_ffn_embed_dim": 32, f"{side}_attention_heads": 2})
    model = models.build_model(
        Namespace(arch="transformer", **shape), SimpleNamespace(source_dictionary=tagged, target_dictionary=tagged)
    )
    torch.save({"args": Namespace(langs=["de", "en", "fr"], **shape), "model": model.state_dict()}, path)
    return path


def test_adapters_train_resume_and_decode(root: Path, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """On mixed data; the backbone's file is deleted before the second epoch."""
    backbone = write_backbone(tmp_path / "backbone.pt")
    before = state_of(backbone)
    more = ["--share-all-embeddings", *sizes("encoder", "decoder"), *SMOOTHED, *TAGGED]
    more += [
        "--arch",
        "transformer_adapter_tiny",
        "--adapter-backbone",
        backbone,
        "--adapter-width",
        8,
    ]
    first = losses(run_cli("train", *training(root / "bin", user_dir, tmp_path / "run", *more, "--max-epoch", 1)))
    backbone.unlink()
    second = losses(run_cli("train", *training(root / "bin", user_dir, tmp_path / "run", *more, "--max-epoch", 2)))
    after = state_of(tmp_path / "run" / "checkpoint_last.pt")
    assert {name for name in after if name not in before} == {name for name in after if ".adapters." in name}
    assert [name for name in before if not torch.equal(before[name], after[name])] == []
    assert second[-1] < first[-1]
    done = run_cli(
        "generate", root / "bin", "--user-dir", user_dir, *TAGGED, "-s", "fr", "-t", "en", "--path",
        tmp_path / "run" / "checkpoint_last.pt", "--batch-size", 5, "--beam", 3, "--cpu",
    )  # fmt: skip
    assert hypotheses(done) == 9
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    source = {row[0][2:]: row[1].replace("__fr__ ", "") for row in rows if row[0].startswith("S-")}
    expected = {row[0][2:]: row[2] for row in rows if row[0].startswith("D-")}
    more = [tmp_path / "run", "--beam", 3, "--cpu"]
    refused = run_cli("fairseq_plugins", "translate", *more, check=False)
    assert refused.stderr.endswith("--source-lang and --target-lang are needed, it was trained on de-en,fr-en\n")
    text = "\n".join(source.values()) + "\n"
    found = run_cli("fairseq_plugins", "translate", *more, "-s", "fr", "-t", "en", stdin=text).stdout.splitlines()
    assert dict(zip(source, found)) == expected


def test_msp_from_a_stock_language_model(root: Path, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """Pre-train with language_modeling, prompt, average, decode with a beam; the checkpoints hold the prompts alone."""
    text = tmp_path / "text"
    text.mkdir()
    for split in ("train", "valid"):
        for kind in ("bin", "idx"):
            (text / f"{split}.{kind}").write_bytes((root / "bin" / f"{split}.de-en.en.{kind}").read_bytes())
    (text / "dict.txt").write_bytes((root / "bin" / "dict.en.txt").read_bytes())
    lm = ["--task", "language_modeling", "--arch", "transformer_lm", *sizes("decoder"), "--decoder-normalize-before"]
    lm += ["--decoder-input-dim", 16, "--decoder-output-dim", 16]
    lm += [
        "--decoder-learned-pos",
        "--no-scale-embedding",
        "--activation-fn",
        "gelu",
        "--share-decoder-input-output-embed",
    ]
    lm += ["--tokens-per-sample", 64, "--sample-break-mode", "eos", "--criterion", "cross_entropy", "--max-epoch", 1]
    run_cli("train", *training(text, user_dir, tmp_path / "lm", *lm))
    (tmp_path / "lm" / "dict.txt").write_bytes((text / "dict.txt").read_bytes())
    frozen = tmp_path / "lm" / "checkpoint_last.pt"
    data = [name for name in training(root / "bin", user_dir, tmp_path / "run") if name not in ("--dropout", 0.1)]
    msp = [
        *PAIR,
        "--arch",
        "gpt_msp_tiny",
        "--prompt-length",
        4,
        "--pretrained-gpt",
        frozen,
        *SMOOTHED,
        "--keep-best-checkpoints",
        2,
    ]
    found = losses(run_cli("train", *data, *msp, "--max-epoch", 2))
    assert found[1] < found[0]
    state = state_of(tmp_path / "run" / "checkpoint_last.pt")
    assert len([name for name in state if state[name].numel()]) == 9 and len(state) == 10
    average.main(["--directory", str(tmp_path / "run"), "--best", "2", "--output", str(tmp_path / "a.pt")])
    arguments = [root / "bin", "--user-dir", user_dir, *PAIR, "--batch-size", 4, "--beam", 3, "--cpu"]
    moved = frozen.rename(tmp_path / "moved.pt")
    (tmp_path / "dict.txt").write_bytes((text / "dict.txt").read_bytes())
    override = ["--model-overrides", str({"pretrained_gpt": str(moved)})]
    assert hypotheses(run_cli("generate", *arguments, "--path", tmp_path / "a.pt", *override)) == 9


def test_xlmr_encoder_trains_and_decodes(root: Path, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """A frozen encoder; the masked LM's last row, <mask>, has no entry in a stock dictionary."""
    model = ["--arch", "transformer_from_xlmr_tiny", *sizes("encoder", "decoder"), "--max-source-positions", 64]
    model += [
        "--max-target-positions",
        64,
        "--pretrained-xlmr",
        root / "masked_lm",
        "--freeze-encoder",
        *SMOOTHED,
        *PAIR,
    ]
    found = losses(run_cli("train", *training(root / "bin", user_dir, tmp_path, *model, "--max-epoch", 2)))
    assert found[1] < found[0]
    states = [state_of(tmp_path / f"checkpoint{epoch}.pt") for epoch in (1, 2)]
    same = {name for name in states[0] if torch.equal(states[0][name], states[1][name])}
    assert {name for name in states[0] if name.startswith("encoder.")} <= same and len(same) < len(states[0])
    done = run_cli(
        "generate", root / "bin", "--user-dir", user_dir, *PAIR, "--path", tmp_path / "checkpoint_last.pt", "--cpu"
    )
    assert hypotheses(done) == 9


# ---- The scripts of examples/sga. ----


@pytest.fixture
def script(repo_root: Path) -> Callable[..., str]:
    """Run a script with this Python; returns what it printed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {
        **os.environ,
        "PATH": path,
        "PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
        "PAIR": "de-en",
        "SUBSET": "test",
    }

    def run(name: str, *arguments: Any, **env: Any) -> str:
        command = ["bash", f"examples/sga/{name}.sh", *map(str, arguments)]
        more = {key: str(value) for key, value in env.items()}
        done = subprocess.run(
            command, cwd=repo_root, env={**given, **more}, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout + done.stderr

    return run


def schedule(updates: int, every: int, *more: Any) -> List[Any]:
    """Validations every few updates, none at the end of an epoch."""
    found = [f"--{what}-interval{kind}" for what in ("validate", "save") for kind in ("-updates", "")]
    steps = [word for option in found for word in (option, every if option.endswith("-updates") else 1000)]
    return [*steps, "--max-update", updates, "--max-sentences", 8, "--log-interval", 100, *more]


def write_copies(folder: Path) -> None:
    """Two pairs whose targets are their sources, of four pieces alone: a loss that falls within seconds."""
    folder.mkdir()
    for split, counts in COUNTS.items():
        for seed, (pair, count) in enumerate(counts.items(), start=split == "test"):
            rows = [[4 + piece % 4 for piece in row] for row in data_bins.sentences(count, seed)]
            for language in pair.split("-"):
                data_bins.write_side(folder, split, pair, language, rows)
                data_bins.write_dictionary(folder, language)


@pytest.mark.slow
def test_scripts_of_the_multilingual_transformer_and_its_adapters(script: Any, tmp_path: Path) -> None:
    """The transformer learns two pairs and is judged by one; adapters train inside it; decoding takes the options of the run."""
    write_copies(tmp_path / "bin")
    small = [str(one) for one in sizes("encoder", "decoder")]
    learning = " ".join(map(str, [*small, "--lr 0.01 --warmup-updates 5", *schedule(40, 5)]))
    options = [*small, "--adapter-width", 8, "--warmup-updates", 5, *schedule(8, 8), "--cpu"]
    script("train_adapter", tmp_path, "run", 1, 3, *options, BACKBONE_OPTIONS=learning)
    backbone = tmp_path / "run" / "backbone"
    log = (backbone / "train.log").read_text(encoding="utf-8")
    assert "[train] num of shards: {'main:de-en': 1, 'others:fr-en': 1}" in log
    assert "[valid] num of shards: {'main:de-en': 1}" in log
    found = logged(log)
    assert found[-1] < 0.8 * found[0]

    script("evaluate", tmp_path, "run", "tagged", KEEP=tmp_path / "kept", PAIR="fr-en")
    lines = list(read_lines(tmp_path / "kept" / "tagged.en", "kept", strict=False))
    assert len(lines) == COUNTS["test"]["fr-en"] and "__" not in "".join(lines) and any(lines)
    state = state_of(tmp_path / "run" / "checkpoint_last.pt")
    adapters = {name: value.numel() for name, value in state.items() if ".adapters." in name}
    sides = {
        (name.split(".")[0], language)
        for name in adapters
        for language in ("de", "en", "fr")
        if f".{language}." in name
    }
    assert sides == {("encoder", "de"), ("encoder", "fr"), ("decoder", "en")}
    facts = json.loads((tmp_path / "kept" / "run.json").read_text(encoding="utf-8"))
    whole = re.search(r"shared model params: [\d,]+ \(num\. trained: ([\d,]+)\)", log)
    assert whole and facts["trained_parameters"] == sum(adapters.values()) + int(whole.group(1).replace(",", ""))
    times = [
        torch.load(folder / "checkpoint_last.pt", weights_only=False)["extra_state"]["previous_training_time"]
        for folder in (tmp_path / "run", backbone)
    ]
    assert facts["train_seconds"] == pytest.approx(sum(times), abs=0.1) and min(times) > 0.1


@pytest.mark.slow
def test_scripts_of_mbart(script: Any, tmp_path: Path) -> None:
    """The small mBART learns another corpus, in its own pieces, from what prepare.sh leaves; its output is plain text."""
    texts = {}
    for example in generate(3, {"train": 40, "valid": 16, "test": 8}):
        for language in ("en", "de"):
            texts.setdefault(f"{example.split}.{language}", []).append(example.texts[language])
    pieces = tmp_path / "bin" / "pieces"
    pieces.mkdir(parents=True)
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = tmp_path / "bin" / "sentencepiece.bpe.model"
    options = TrainOptions(vocab_size=80, character_coverage=1.0)
    train([tmp_path / "train.en", tmp_path / "train.de"], model, tmp_path / "dict.txt", options)
    cut = SentencePieceProcessor(model_file=str(model))
    for name, lines in texts.items():
        rows = [" ".join(cut.encode(line, out_type=str)) for line in lines]
        (pieces / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "bin" / "train.en-de.en.idx").touch()

    script("train_mbart", tmp_path, "run", 1, 3, *schedule(16, 4, "--cpu"), WARMUP=4)
    assert {name: list(read_lines(tmp_path / "mbart" / "text" / name, "text")) for name in texts} == texts
    found = logged((tmp_path / "run" / "train.log").read_text(encoding="utf-8"))
    assert found[-1] < 0.9 * found[0]
    script("evaluate", tmp_path, "run", "mbart", KEEP=tmp_path / "kept")
    outputs = list(read_lines(tmp_path / "kept" / "mbart.en", "kept", strict=False))
    assert len(outputs) == 8 and "\u2581" not in "".join(outputs) and "[en]" not in "".join(outputs)
    facts = json.loads((tmp_path / "kept" / "run.json").read_text(encoding="utf-8"))
    assert facts["trained_parameters"] == 4_752_768
