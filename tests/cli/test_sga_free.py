"""Test free generation with SGA under the stock commands."""

import pytest

from .commands import hypotheses, last_line, logged, model_of
from .test_sga_commands import TASK, sga

FREE = "--alignment mask_predict --criterion sga_mask_predict"
PARTS = "encoder_prompts alignment_prompts denoiser_prompts semantic length_predictor"


@pytest.mark.slow
def test_free_generation_trains_averages_and_decodes(world, train, decode, run_cli, tmp_path):
    more = f"""{FREE} --max-epoch 2 --eval-bleu --best-checkpoint-metric bleu --length-beam 2
        --maximize-best-checkpoint-metric --keep-best-checkpoints 2
        --eval-bleu-args {{"iter_decode_max_iter":2}}"""
    process = train(world.data, tmp_path, sga(world, more))
    for name in ("alignment", "length", "denoising"):
        assert logged(process, f"valid_{name}_loss")
    average = tmp_path / "average.pt"
    files = ["--directory", tmp_path, "--best", 2, "--output", average]
    run_cli("fairseq_plugins", "average", *files)
    parts = {key.split(".")[0] for key, tensor in model_of(average).items() if tensor.numel()}
    assert parts == set(PARTS.split())

    line = f"{TASK} --max-sentences 5 --length-beam 2 --mask-predict-iterations 3"
    more = "--iter-decode-max-iter 2 --retain-iter-history --print-step"
    full = decode(world.data, average, f"{line} {more}")
    history, steps = hypotheses(full, "E"), hypotheses(full, "I")
    assert len(hypotheses(full)) == 12
    assert len(history) == sum(int(step) + 1 for step in steps.values())
    assert {int(step) for step in steps.values()} <= {1, 2}
    mask_predict_only = decode(world.data, average, f"{line} --iter-decode-max-iter 0")
    assert hypotheses(mask_predict_only) == {key: history[f"{key}_0"] for key in steps}


def test_a_checkpoint_decodes_with_the_authors_options_it_was_trained_with(
    world, train, decode, tmp_path
):
    more = f"""{FREE} --length-from bos --label-smoothing 0.1 --min-mask-ratio 0.2
        --denoise-all-positions --max-update 1 --disable-validation"""
    train(world.data, tmp_path, sga(world, more))
    file, line = tmp_path / "checkpoint_last.pt", f"{TASK} --iter-decode-max-iter 0"
    assert len(hypotheses(decode(world.data, file, line))) == 12
    overrides = ["--model-overrides", "{'length_from': 'mean'}"]
    message = last_line(decode(world.data, file, line, *overrides, check=False))
    assert "--length-from bos; valid: bos" in message


def test_a_criterion_of_another_alignment_is_refused_before_anything_is_written(
    world, train, tmp_path
):
    line = sga(world, "--alignment mask_predict")
    message = last_line(train(world.data, tmp_path, line, check=False))
    for option in ("--criterion sga_ctc", "--alignment ctc", "--criterion sga_mask_predict"):
        assert option in message
    assert not list(tmp_path.iterdir())
