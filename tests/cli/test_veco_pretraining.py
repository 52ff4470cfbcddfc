"""Test VECO's pre-training under fairseq-train, and a translation model that starts from it."""

import pytest
import torch

from fairseq_plugins.checkpoints import write_masked_lm
from tests import builders, veco_builders

from .commands import largest_difference, model_of, output_of, records

pytestmark = pytest.mark.slow

TAGS = ("<mask>", "[en]", "[de]")
MODEL = f"""--arch veco_tiny --encoder-layers 3 --encoder-embed-dim {builders.WIDTH}
    --encoder-ffn-embed-dim {builders.FFN} --encoder-attention-heads {builders.HEADS}
    --max-sentences 4"""
PRETRAINING = f"""{MODEL} --task veco_pretraining --pairs en-de --monolingual en
    --tokens-per-sample 40 --criterion cross_sequence_mlm --freeze-backbone-updates 2"""


@pytest.fixture(scope="module")
def folder(path):
    """Write pairs and documents, and dictionaries that end with ``<mask>`` and language symbols."""
    for number, split in enumerate(("train", "valid")):
        builders.write_pair(path, split, "en", "de", seed=3 + number, count=12)
        documents = veco_builders.documents([4] * 6, seed=5 + number)
        veco_builders.write_documents(path, split, "en", documents)
    for language in ("en", "de"):
        with open(path / f"dict.{language}.txt", "a", encoding="utf-8") as file:
            file.writelines(f"{tag} 1\n" for tag in TAGS)
    return path


def test_a_pretrained_masked_lm_is_frozen_first_and_a_run_resumes_exactly(folder, train, tmp_path):
    """The stopped run ends in the phase of frozen parameters."""
    module = builders.masked_lm(2, layers=3, max_positions=512)
    write_masked_lm(tmp_path / "mlm", module.sizes, module.state_dict(), dtype=torch.float32)

    def run(updates, name):
        line = f"""{PRETRAINING} --init-from-mlm {tmp_path / "mlm"} --embedding-mismatch extend
            --max-update {updates}"""
        train(folder, tmp_path / name, line)
        return model_of(tmp_path / name)

    frozen = run(1, "resumed")
    for name, tensor in module.state_dict().items():
        key = name.replace("sentence_encoder.", "encoder.")
        if key in frozen:
            assert torch.equal(frozen[key][: len(tensor)], tensor), name
    assert sum(name.startswith("encoder.layers.") for name in frozen) == 3 * 16
    run(4, "resumed")
    unbroken = run(4, "unbroken")
    weight = "encoder.layers.0.fc1.weight"
    assert not torch.equal(unbroken[weight], frozen[weight])
    assert largest_difference(tmp_path / "unbroken", tmp_path / "resumed") == 0.0


def test_from_pretraining_to_translation(folder, train, tmp_path):
    pretrained, tuned = tmp_path / "pretrained", tmp_path / "tuned"
    log = records(train(folder, pretrained, f"{PRETRAINING} --max-update 6"))
    objectives = []
    for update in (record for record in log if "num_updates" in record):
        names = [name for name in ("is_mlm", "cs_mlm", "tlm") if update.get(name) is not None]
        objectives.append(names)
    # Cross-attention alone while the backbone is frozen, then documents and pairs in turn.
    frozen, documents, pairs = ["cs_mlm"], ["is_mlm", "cs_mlm"], ["is_mlm", "cs_mlm", "tlm"]
    assert objectives == [frozen, frozen, documents, pairs, documents, pairs]

    line = f"""{MODEL} --missing-language-tag unk --task translation_from_pretrained_veco
        -s en -t de --no-scale-embedding --keep-decoder-layers 0,2 --lr 1e-6 --max-update 1
        --finetune-from-model {pretrained / "checkpoint_last.pt"}"""
    process = train(folder, tuned, line)
    before, after = model_of(pretrained), model_of(tuned)
    name, source = (f"decoder.layers.{layer}.encoder_attn.k_proj.weight" for layer in (1, 2))
    torch.testing.assert_close(after[name], before[source], rtol=0, atol=1e-4)
    name = "encoder.embed_tokens.weight"
    torch.testing.assert_close(after[name], before[name], rtol=0, atol=1e-4)
    assert "no entry" not in output_of(process)  # the languages have their symbols
