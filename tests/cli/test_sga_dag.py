"""Test SGA with a graph of slots under the stock commands."""

import pytest

from .commands import hypotheses, last_line, logged, model_of
from .test_sga_commands import TASK, sga

GRAPH = "--alignment dag --criterion sga_dag --ctc-upsample 4 --lora-rank 2"
PARTS = "encoder_prompts alignment_prompts denoiser_prompts semantic transitions"


@pytest.mark.slow
def test_a_graph_trains_and_decodes_along_every_path(world, train, decode, tmp_path):
    line = sga(world, f"{GRAPH} --max-update 4 --glancing 0.5:0.1@2")
    process = train(world.data, tmp_path, line)
    assert logged(process, "valid_alignment_loss")
    assert logged(process, "valid_denoising_loss")
    file = tmp_path / "checkpoint_last.pt"
    parts = {key.split(".")[0] for key, tensor in model_of(file).items() if tensor.numel()}
    assert parts == set(PARTS.split())

    aligned = {}
    for path in ("lookahead", "greedy", "viterbi --lenpen 2"):
        passes = "--iter-decode-max-iter 2 --retain-iter-history --print-step"
        line = f"{TASK} --max-sentences 5 {passes} --dag-decoding {path}"
        process = decode(world.data, file, line)
        history, steps = hypotheses(process, "E"), hypotheses(process, "I")
        assert len(hypotheses(process)) == 12
        assert len(history) == sum(int(step) + 1 for step in steps.values())
        # The denoiser reads a path without tokens as <mask>.
        aligned[path] = {key: history[f"{key}_0"].replace("<mask>", "") for key in steps}
    assert aligned["lookahead"] != aligned["viterbi --lenpen 2"]
    alignment_only = decode(world.data, file, f"{TASK} --iter-decode-max-iter 0")
    assert hypotheses(alignment_only) == aligned["lookahead"]
    process = decode(world.data, file, f"{TASK} --iter-decode-ctc-beam 2", check=False)
    message = last_line(process)
    assert "--iter-decode-ctc-beam 2" in message
    assert "--alignment dag" in message
