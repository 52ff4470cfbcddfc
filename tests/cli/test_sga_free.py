"""Free generation with SGA under the stock commands, each in a subprocess."""

import pytest

from .commands import hydra, hypotheses, largest_difference, last_line, model_of
from .test_sga_commands import decoding, train_arguments

FREE = "--alignment mask_predict --criterion sga_mask_predict"
BLEU = "--eval-bleu --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints"


@pytest.mark.slow
def test_free_generation_trains_averages_and_decodes(world, run_cli, user_dir, tmp_path):
    more = f'--max-epoch 2 {BLEU} 2 --length-beam 2 --eval-bleu-args {{"iter_decode_max_iter":2}}'
    result = run_cli("train", *train_arguments(world, user_dir, tmp_path, FREE, more))
    for name in ("alignment", "length", "denoising"):
        assert f'"train_{name}_loss": "' in result.stderr + result.stdout
        assert f'"valid_{name}_loss": "' in result.stderr + result.stdout
    averaged = tmp_path / "average.pt"
    run_cli("fairseq_plugins.checkpoints.average", "--directory", tmp_path, "--best", 2, "--output", averaged)
    parts = {key.split(".")[0] for key, value in model_of(averaged).items() if value.numel()}
    assert parts == {"encoder_prompts", "alignment_prompts", "denoiser_prompts", "semantic", "length_predictor"}

    base = decoding(world, user_dir, averaged, "--max-sentences 5 --mask-predict-iterations 3 --length-beam 2")
    full = run_cli("generate", *base, *"--iter-decode-max-iter 2 --retain-iter-history --print-step".split())
    history, steps = hypotheses(full, "E"), hypotheses(full, "I")
    assert len(hypotheses(full)) == 12  # no sentence is lost
    assert len(history) == sum(int(step) + 1 for step in steps.values())
    assert {int(step) for step in steps.values()} <= {1, 2}
    alone = run_cli("generate", *base, "--iter-decode-max-iter", 0)
    assert hypotheses(alone) == {key: history[f"{key}_0"] for key in steps}  # mask-predict alone
    refused = run_cli("generate", *base, "--mask-predict-iterations", 0, check=False)
    assert "--mask-predict-iterations must be at least 1" in last_line(refused) and "H-" not in refused.stdout


def test_the_options_of_the_authors_under_argparse_and_hydra(world, run_cli, user_dir, tmp_path):
    """Both train the same; a checkpoint decodes with the length it was trained to read, and with no other."""
    more = "--length-from bos --label-smoothing 0.1 --min-mask-ratio 0.2 --denoise-all-positions --max-update 1"
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "argparse", FREE, more, "--disable-validation"))
    config = f"""
common: {{user_dir: {user_dir}, seed: 5}}
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4, alignment: mask_predict, length_from: bos}}
criterion: {{_name: sga_mask_predict, label_smoothing: 0.1, min_mask_ratio: 0.2, denoise_all_positions: true}}
optimization: {{lr: [0.01], max_update: 1}}
dataset: {{batch_size: 8, disable_validation: true, max_tokens_valid: 400}}
"""
    made = hydra(run_cli, tmp_path, config)
    assert largest_difference(tmp_path / "argparse", made) == 0.0
    assert "length_predictor.bos_projection.weight" in model_of(tmp_path / "argparse")
    base = decoding(world, user_dir, tmp_path / "argparse" / "checkpoint_last.pt", "--iter-decode-max-iter 0")
    assert len(hypotheses(run_cli("generate", *base))) == 12
    refused = run_cli("generate", *base, "--model-overrides", "{'length_from': 'mean'}", check=False)
    assert "trained with --length-from bos; valid: bos" in last_line(refused)


def test_a_criterion_of_the_other_alignment_is_refused_before_the_first_batch(world, run_cli, user_dir, tmp_path):
    arguments = train_arguments(world, user_dir, tmp_path, "--alignment mask_predict")
    last = last_line(run_cli("train", *arguments, check=False))
    assert "--criterion sga_ctc trains models with --alignment ctc" in last and "--criterion sga_mask_predict" in last
    assert not list(tmp_path.iterdir())
