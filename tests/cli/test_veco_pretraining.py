"""VECO's pre-training under fairseq-train, and a translation model that starts from it."""

import json
import re

import pytest
import torch

from fairseq_plugins.checkpoints import write_masked_lm
from tests import builders, veco_builders

from .commands import largest_difference, model_of

pytestmark = pytest.mark.slow  # five commands

TAGS = ("<mask>", "[en]", "[de]")
MODEL = f"""--arch veco_tiny --encoder-layers 3 --encoder-embed-dim {builders.WIDTH} --encoder-ffn-embed-dim {builders.FFN}
    --encoder-attention-heads {builders.HEADS} --max-sentences 4"""
PRETRAINING = f"""{MODEL} --task veco_pretraining --pairs en-de --monolingual en --tokens-per-sample 40
    --criterion cross_sequence_mlm --freeze-backbone-updates 2"""


@pytest.fixture(scope="module")
def folder(path):
    """Pairs and documents; ``<mask>`` and the symbols of the languages stand at the end of the dictionary."""
    for number, split in enumerate(("train", "valid")):
        builders.write_pair(path, split, "en", "de", seed=3 + number, count=12)
        veco_builders.write_documents(path, split, "en", veco_builders.documents([4] * 6, seed=5 + number))
    for language in ("en", "de"):
        with open(path / f"dict.{language}.txt", "a", encoding="utf-8") as file:
            file.writelines(f"{tag} 1\n" for tag in TAGS)
    return path


def test_a_masked_lm_is_pretrained_and_a_stopped_run_goes_on(folder, train, tmp_path):
    """Stopped in the phase of frozen parameters, which leaves the masked LM as it is, and continued: equal to an unstopped run."""
    module = builders.masked_lm(2, layers=3, max_positions=512)
    write_masked_lm(tmp_path / "mlm", module.sizes, module.state_dict(), dtype=torch.float32)

    def run(updates, name):
        line = f"{PRETRAINING} --init-from-mlm {tmp_path / 'mlm'} --embedding-mismatch extend --max-update {updates}"
        train(folder, tmp_path / name, line)
        return model_of(tmp_path / name)

    frozen = run(1, "stopped")
    for name, tensor in module.state_dict().items():
        here = name if name.startswith("lm_head") else name.replace("sentence_encoder.", "encoder.")
        if here in frozen:
            assert torch.equal(frozen[here][: len(tensor)], tensor), name
    assert sum(name.startswith("encoder.layers.") for name in frozen) == 3 * 16
    run(4, "stopped")
    whole = run(4, "whole")
    assert not torch.equal(whole["encoder.layers.0.fc1.weight"], frozen["encoder.layers.0.fc1.weight"])
    assert largest_difference(tmp_path / "whole", tmp_path / "stopped") == 0.0


def test_from_pretraining_to_translation(folder, train, tmp_path):
    done = train(folder, tmp_path / "pretrained", f"{PRETRAINING} --max-update 6")
    updates = [json.loads(text) for text in re.findall(r"train_inner \| (\{.*\})", done.stdout + done.stderr)]
    logged = [{name for name in ("is_mlm", "cs_mlm", "tlm") if update.get(name) is not None} for update in updates]
    # Cross-attention alone, then documents and pairs in turn.
    assert logged == [{"cs_mlm"}] * 2 + [{"is_mlm", "cs_mlm"}, {"is_mlm", "cs_mlm", "tlm"}] * 2
    more = f"""{MODEL} --missing-language-tag unk --task translation_from_pretrained_veco -s en -t de --no-scale-embedding
        --finetune-from-model {tmp_path / "pretrained" / "checkpoint_last.pt"} --keep-decoder-layers 0,2 --lr 1e-6 --max-update 1"""
    done = train(folder, tmp_path / "run", more)
    state, found = model_of(tmp_path / "pretrained"), model_of(tmp_path / "run")
    name, source = (f"decoder.layers.{layer}.encoder_attn.k_proj.weight" for layer in (1, 2))
    torch.testing.assert_close(found[name], state[source], rtol=0, atol=1e-4)
    name = "encoder.embed_tokens.weight"
    torch.testing.assert_close(found[name], state[name], rtol=0, atol=1e-4)
    assert "no entry" not in done.stdout + done.stderr  # the languages have their symbols
