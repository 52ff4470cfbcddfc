"""SGA with a graph of slots under the stock commands, each in a subprocess."""

import pytest

from .commands import hypotheses, last_line, logged, model_of
from .test_sga_commands import TASK, sga

GRAPH = "--alignment dag --criterion sga_dag --ctc-upsample 4 --lora-rank 2"


@pytest.mark.slow
def test_a_graph_trains_and_is_decoded_by_every_path(world, train, decode, tmp_path):
    result = train(world.data, tmp_path, sga(world, f"{GRAPH} --max-update 4 --glancing 0.5:0.1@2"))
    assert all(logged(result, f"valid_{name}_loss") for name in ("alignment", "denoising"))
    file = tmp_path / "checkpoint_last.pt"
    parts = {key.split(".")[0] for key, value in model_of(file).items() if value.numel()}
    assert parts == {"encoder_prompts", "alignment_prompts", "denoiser_prompts", "semantic", "transitions"}
    found = {}
    for path in ("lookahead", "greedy", "viterbi --lenpen 2"):
        passes = "--iter-decode-max-iter 2 --retain-iter-history --print-step"
        full = decode(world.data, file, f"{TASK} --max-sentences 5 {passes} --dag-decoding {path}")
        history, steps = hypotheses(full, "E"), hypotheses(full, "I")
        assert len(hypotheses(full)) == 12 and len(history) == sum(int(step) + 1 for step in steps.values())
        # A path without tokens is read by the denoiser as <mask>.
        found[path] = {key: history[f"{key}_0"].replace("<mask>", "") for key in steps}
    assert hypotheses(decode(world.data, file, f"{TASK} --iter-decode-max-iter 0")) == found["lookahead"]
    assert found["lookahead"] != found["viterbi --lenpen 2"]
    refused = decode(world.data, file, f"{TASK} --iter-decode-ctc-beam 2", check=False)
    assert "--iter-decode-ctc-beam 2: this model was trained with --alignment dag" in last_line(refused)
