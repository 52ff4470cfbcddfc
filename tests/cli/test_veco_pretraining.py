"""VECO's pre-training under fairseq-train, and a translation model that starts from it."""

import json
import re
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch

from fairseq_plugins.checkpoints import write_masked_lm
from tests import builders, data_bins, veco_data_builders

pytestmark = pytest.mark.slow  # five commands

Run = Callable[..., Any]
TAGS = ("<mask>", "[en]", "[de]")
SIZES = [
    *("--encoder-layers", 3, "--encoder-embed-dim", builders.WIDTH, "--encoder-ffn-embed-dim", builders.FFN),
    *("--encoder-attention-heads", builders.HEADS, "--arch", "veco_tiny"),
]
TRAINING = ["--optimizer", "adam", "--lr", 0.01, "--seed", 1, "--num-workers", 0, "--cpu", "--log-format", "json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs and documents; ``<mask>`` and the symbols of the languages stand at the end of the dictionary."""
    path = tmp_path_factory.mktemp("veco")
    for number, split in enumerate(("train", "valid")):
        data_bins.write_pair(path, split, "en", "de", seed=3 + number, count=12)
        veco_data_builders.write_documents(path, split, "en", veco_data_builders.documents([4] * 6, seed=5 + number))
    for language in ("en", "de"):
        file = path / f"dict.{language}.txt"
        file.write_text(file.read_text(encoding="utf-8") + "".join(f"{tag} 1\n" for tag in TAGS), encoding="utf-8")
    return path


def updates(log: str) -> List[Dict[str, Any]]:
    """What was logged of each update."""
    return [json.loads(text) for text in re.findall(r"train_inner \| (\{.*\})", log)]


def pretraining(folder: Path, user_dir: str) -> List[Any]:
    """The command, without its end."""
    return [
        *("train", folder, "--user-dir", user_dir, *SIZES, *TRAINING, "--task", "veco_pretraining", "--pairs", "en-de"),
        *(
            "--monolingual",
            "en",
            "--tokens-per-sample",
            40,
            "--criterion",
            "cross_sequence_mlm",
            "--freeze-backbone-updates",
            2,
        ),
        *("--max-sentences", 4, "--log-interval", 1),
    ]


def state_of(folder: Path) -> Dict[str, torch.Tensor]:
    """The model of a run's last checkpoint."""
    state: Dict[str, torch.Tensor] = torch.load(folder / "checkpoint_last.pt", weights_only=False)["model"]
    return state


def test_a_masked_lm_is_pretrained_and_a_stopped_run_goes_on(
    folder: Path, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    """Stopped in the phase of frozen parameters, which leaves the masked LM as it is, and continued: equal to an unstopped run."""
    module = builders.masked_lm(2, layers=3, max_positions=512)
    write_masked_lm(tmp_path / "mlm", module.sizes, module.state_dict(), dtype=torch.float32)
    line = [*pretraining(folder, user_dir), "--init-from-mlm", tmp_path / "mlm", "--embedding-mismatch", "extend"]
    for updates_ in (1, 4):
        run_cli(*line, "--max-update", updates_, "--save-dir", tmp_path / "stopped")
        if updates_ == 1:
            frozen = state_of(tmp_path / "stopped")
    for name, tensor in module.state_dict().items():
        here = name if name.startswith("lm_head") else name.replace("sentence_encoder.", "encoder.")
        if here in frozen:
            assert torch.equal(frozen[here][: len(tensor)], tensor), name
    assert sum(name.startswith("encoder.layers.") for name in frozen) == 3 * 16
    run_cli(*line, "--max-update", 4, "--save-dir", tmp_path / "whole")
    whole, stopped = state_of(tmp_path / "whole"), state_of(tmp_path / "stopped")
    assert not torch.equal(whole["encoder.layers.0.fc1.weight"], frozen["encoder.layers.0.fc1.weight"])
    for name, tensor in whole.items():
        assert torch.equal(stopped[name], tensor), name


def test_from_pretraining_to_translation(folder: Path, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    line = [folder, "--user-dir", user_dir, *SIZES, *TRAINING]
    done = run_cli(*pretraining(folder, user_dir), "--max-update", 6, "--save-dir", tmp_path / "pretrained")
    logged = [
        {name for name in ("is_mlm", "cs_mlm", "tlm") if update.get(name) is not None}
        for update in updates(done.stdout + done.stderr)
    ]
    # Cross-attention alone, then documents and pairs in turn.
    assert logged == [{"cs_mlm"}] * 2 + [{"is_mlm", "cs_mlm"}, {"is_mlm", "cs_mlm", "tlm"}] * 2
    state = state_of(tmp_path / "pretrained")
    done = run_cli(
        *("train", *line, "--missing-language-tag", "unk", "--task", "translation_from_pretrained_veco"),
        *("--source-lang", "en", "--target-lang", "de"),
        *("--finetune-from-model", tmp_path / "pretrained" / "checkpoint_last.pt", "--keep-decoder-layers", "0,2"),
        *("--no-scale-embedding", "--max-sentences", 4, "--lr", 1e-6, "--max-update", 1, "--save-dir", tmp_path / "run"),
    )  # fmt: skip
    found = state_of(tmp_path / "run")
    for name, source in (
        ("encoder.embed_tokens.weight", "encoder.embed_tokens.weight"),
        ("decoder.layers.1.encoder_attn.k_proj.weight", "decoder.layers.2.encoder_attn.k_proj.weight"),
    ):
        torch.testing.assert_close(found[name], state[source], rtol=0, atol=1e-4)
    assert "no entry" not in done.stdout + done.stderr  # the languages have their symbols
