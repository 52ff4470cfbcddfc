"""Free generation with SGA under the stock commands, each in a subprocess."""

import pytest

from .commands import hypotheses, last_line, logged, model_of
from .test_sga_commands import TASK, sga

FREE = "--alignment mask_predict --criterion sga_mask_predict"


@pytest.mark.slow
def test_free_generation_trains_averages_and_decodes(world, train, decode, run_cli, tmp_path):
    more = f"""{FREE} --max-epoch 2 --eval-bleu --best-checkpoint-metric bleu --maximize-best-checkpoint-metric
        --keep-best-checkpoints 2 --length-beam 2 --eval-bleu-args {{"iter_decode_max_iter":2}}"""
    result = train(world.data, tmp_path, sga(world, more))
    assert all(logged(result, f"valid_{name}_loss") for name in ("alignment", "length", "denoising"))
    averaged = tmp_path / "average.pt"
    run_cli("fairseq_plugins", "average", "--directory", tmp_path, "--best", 2, "--output", averaged)
    parts = {key.split(".")[0] for key, value in model_of(averaged).items() if value.numel()}
    assert parts == {"encoder_prompts", "alignment_prompts", "denoiser_prompts", "semantic", "length_predictor"}

    base = f"{TASK} --max-sentences 5 --length-beam 2 --mask-predict-iterations"
    more = "3 --iter-decode-max-iter 2 --retain-iter-history --print-step"
    full = decode(world.data, averaged, f"{base} {more}")
    history, steps = hypotheses(full, "E"), hypotheses(full, "I")
    assert len(hypotheses(full)) == 12  # no sentence is lost
    assert len(history) == sum(int(step) + 1 for step in steps.values())
    assert {int(step) for step in steps.values()} <= {1, 2}
    alone = decode(world.data, averaged, f"{base} 3 --iter-decode-max-iter 0")
    assert hypotheses(alone) == {key: history[f"{key}_0"] for key in steps}  # mask-predict alone


def test_the_options_of_the_authors(world, train, decode, tmp_path):
    """A checkpoint decodes with the length it was trained to read, and with no other."""
    more = f"""{FREE} --length-from bos --label-smoothing 0.1 --min-mask-ratio 0.2 --denoise-all-positions --max-update 1
        --disable-validation"""
    train(world.data, tmp_path, sga(world, more))
    file, base = tmp_path / "checkpoint_last.pt", f"{TASK} --iter-decode-max-iter 0"
    assert len(hypotheses(decode(world.data, file, base))) == 12
    refused = decode(world.data, file, base, "--model-overrides", "{'length_from': 'mean'}", check=False)
    assert "trained with --length-from bos; valid: bos" in last_line(refused)


def test_a_criterion_of_the_other_alignment_is_refused_before_the_first_batch(world, train, tmp_path):
    last = last_line(train(world.data, tmp_path, sga(world, "--alignment mask_predict"), check=False))
    assert "--criterion sga_ctc trains models with --alignment ctc" in last and "--criterion sga_mask_predict" in last
    assert not list(tmp_path.iterdir())
