"""Free generation with SGA under the stock commands, each in a subprocess."""

import json
import shutil

import pytest
from fairseq.data import data_utils

from tests import data_bins

from .commands import bash, hypotheses, largest_difference, last_line, model_of
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


@pytest.mark.slow
def test_pairs_are_decoded_whatever_the_length_of_their_references(world, run_cli, user_dir, repo_root, tmp_path):
    """The model writes 48 tokens at most; no sentence is lost, and none before it, because a reference has 60."""
    more = f'--max-update 1 {BLEU} 1 --no-epoch-checkpoints --eval-bleu-args {{"iter_decode_max_iter":0}}'
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "sga", FREE, more))
    shutil.copytree(world.data, tmp_path / "bin")
    references = data_utils.load_indexed_dataset(str(world.data / "test.en-de.de"))
    rows = [references[number].tolist()[:-1] for number in range(len(references))]
    data_bins.write_side(tmp_path / "bin", "test", "en-de", "de", [*rows[:5], (rows[5] * 60)[:60], *rows[6:]])
    env = {"POSITIONS": 96, "PASSES": 0, "SOURCE": "en", "TARGET": "de"}
    bash(repo_root, "examples/sga/generate_free.sh", "pairs", tmp_path, "sga", 1, "--cpu", **env)
    assert len((tmp_path / "sga" / "1-0.de").read_text(encoding="utf-8").splitlines()) == len(rows)
    assert "invalid sizes" not in (tmp_path / "sga" / "generate-1-0.err").read_text(encoding="utf-8")


def test_the_options_of_the_authors_under_argparse_and_hydra(world, run_cli, user_dir, tmp_path):
    """Both train the same; a checkpoint decodes with the length it was trained to read, and with no other."""
    more = "--length-from bos --label-smoothing 0.1 --min-mask-ratio 0.2 --denoise-all-positions --max-update 1"
    run_cli("train", *train_arguments(world, user_dir, tmp_path / "argparse", FREE, more, "--disable-validation"))
    config = f"""
common: {{user_dir: {user_dir}, cpu: true, seed: 5}}
task: {{_name: sga_translation, data: {world.data}, source_lang: en, target_lang: de}}
model: {{_name: sga_tiny, pretrained_mlm: {world.masked_lm}, prompt_length: 4, alignment: mask_predict, length_from: bos}}
criterion: {{_name: sga_mask_predict, label_smoothing: 0.1, min_mask_ratio: 0.2, denoise_all_positions: true}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.01], max_update: 1}}
dataset: {{batch_size: 8, num_workers: 0, disable_validation: true, max_tokens_valid: 400}}
checkpoint: {{save_dir: {tmp_path / "hydra"}}}
"""
    (tmp_path / "free.yaml").write_text(config)
    run_cli("hydra_train", "--config-dir", tmp_path, "--config-name", "free", cwd=tmp_path)
    assert largest_difference(tmp_path / "argparse", tmp_path / "hydra") == 0.0
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


@pytest.mark.slow
def test_questions_keep_their_answers_within_the_slots_of_ctc(repo_root, tmp_path):
    """prepare_free.sh with 64 positions: 32 source tokens, whatever the alignment; passages lose their end, never the answer."""
    data = []
    for number in range(40):
        passage = f"house {number} is red . " + "a dog runs in the park . " * 12 + "the end is blue ."
        questions = []
        for text, answer in (("what is red ?", f"house {number}"), ("what is blue ?", "the end")):
            start = passage.index(answer)
            questions.append({"question": text, "answers": [{"text": answer, "answer_start": start}]})
        data.append({"title": f"T{number}", "paragraphs": [{"context": passage, "qas": questions}]})
    (tmp_path / "xquad.en.json").write_text(json.dumps({"data": data}), encoding="utf-8")
    bash(repo_root, "examples/sga/prepare_free.sh", "question_generation", tmp_path, tmp_path / "out", POSITIONS=64)
    kept = 0
    for split in ("train", "valid", "test"):
        rows = (tmp_path / "out" / "text" / f"{split}.passage").read_text(encoding="utf-8").splitlines()
        for row in rows:
            passage, _, answer = row.partition(" [S] ")
            assert passage.startswith(answer + " is red .") and not passage.endswith("blue .")
        prefix = str(tmp_path / "out" / "bin" / f"{split}.passage-question.passage")
        dataset = data_utils.load_indexed_dataset(prefix)  # its sizes are a view of the open file
        assert len(dataset) == len(rows)
        assert all(28 <= size + 1 <= 32 for size in dataset.sizes.tolist())  # </s> is counted, <s> not yet
        kept += len(rows)
    assert kept == 40  # the questions about the end are gone
