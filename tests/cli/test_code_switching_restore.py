"""Restore and fine-tuning under the stock commands: two commands, one run, a killed one, hydra. Each in a subprocess."""

import pytest

from tests import csr_builders

from .commands import checkpoint, hydra, hypotheses, largest_difference, last_line, logged, records, transformer

SIZES = [*transformer(ffn=24), "--max-source-positions=64", "--max-target-positions=64"]
TRAINING = """--arch mbart_base --share-all-embeddings --dropout 0.1 --criterion label_smoothed_cross_entropy
    --label-smoothing 0.2 --optimizer adam --lr 0.01 --max-sentences 8 --seed 5 --cpu --no-epoch-checkpoints
    --log-format json --log-interval 1"""
STOCK = ["--task", "translation_from_pretrained_bart", "-s", "en", "-t", "de", "--langs", csr_builders.LANGS]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data-bin, lexicons and model."""
    return csr_builders.write(tmp_path_factory.mktemp("csr"))


@pytest.fixture
def train(run_cli, user_dir, made):
    """A tiny run of an mBART up to an update."""

    def run(save_dir, updates, *more, **options):
        line = [made.data, "--user-dir", user_dir, "--save-dir", save_dir, "--max-update", updates, *TRAINING.split()]
        return run_cli("train", *line, *SIZES, "--adam-betas", "(0.9, 0.98)", *more, **options)

    return run


def assert_equal_runs(first, second):
    """Parameters and moments."""
    assert largest_difference(first, second) == 0.0
    left, right = (checkpoint(folder)["last_optimizer_state"]["state"] for folder in (first, second))
    assert left.keys() == right.keys()
    assert all((left[key]["exp_avg"] == right[key]["exp_avg"]).all() for key in left)


def adam_steps(folder):
    return {int(value["step"]) for value in checkpoint(folder)["last_optimizer_state"]["state"].values()}


@pytest.mark.slow
def test_two_commands(made, train, run_cli, user_dir, tmp_path):
    """Restore, killed inside its second epoch and continued with two workers; fine-tuning with the stock task; decoding."""
    whole, parts, tuned = (tmp_path / name for name in ("whole", "parts", "tuned"))
    done = train(whole, 26, *made.options())
    shares = logged(done, "train_switched")
    assert len(shares) == 3 and all(0.3 < share < 0.4 for share in shares[:2])
    assert len(set(logged(done, "valid_switched"))) == 1 and logged(done, "valid_coverage")[0] == 1
    assert "train en: 48 sentences" in done.stderr + done.stdout
    train(parts, 15, *made.options(), "--disable-validation")
    train(parts, 26, *made.options(), "--disable-validation", "--num-workers", 2)
    assert_equal_runs(whole, parts)

    train(tuned, 6, *STOCK, "--finetune-from-model", whole / "checkpoint_last.pt")
    options = "--max-len-b 15 --beam 2 --cpu".split()
    line = [made.data, "--user-dir", user_dir, "--path", tuned / "checkpoint_last.pt", *options]
    outputs = [run_cli("generate", *line, *task) for task in (STOCK, ["--task", "code_switching_restore", *STOCK[2:]])]
    for kind in "STHD":
        assert hypotheses(outputs[0], kind) == hypotheses(outputs[1], kind)
        assert len(hypotheses(outputs[0], kind)) == 8
    source = [text.replace(" [en]", "") for text in hypotheses(outputs[0], "S").values()]
    found = run_cli("fairseq_plugins", "translate", tuned, *options, stdin="\n" + "\n".join(source) + "\n")
    expected = hypotheses(outputs[0])
    assert found.stdout.splitlines() == ["", *(expected[number] for number in hypotheses(outputs[0], "S"))]


@pytest.mark.slow
def test_both_stages_in_one_run(made, train, tmp_path):
    """12 restore batches an epoch, 6 of translation, 2 an update: 6 updates, 2 more, then 3 an epoch. The continued runs begin
    inside the epoch that is cut, and exactly at the switch."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = [*made.options(), "--restore-updates", 8, "--update-freq", 2]
    done = train(whole, 16, *options)
    assert logged(done, "train_num_updates") == [6, 8, 11, 14, 16]
    inner = [record for record in records(done) if "num_updates" in record]
    switched = [int(record["num_updates"]) for record in inner if record.get("switched") is not None]
    assert len(inner) == 16 and switched == list(range(1, 9))
    assert not logged(done, "valid_switched"), "validation is translation throughout"
    # Adam counts its steps, and begins anew with update 9.
    for updates, steps in ((7, 7), (8, 8), (16, 8)):
        train(parts, updates, *options, "--disable-validation")
        assert adam_steps(parts) == {steps}, updates
    assert_equal_runs(whole, parts)


@pytest.mark.slow
def test_hydra_and_bad_input(made, train, run_cli, user_dir, tmp_path):
    sizes = "".join(", " + size[2:].replace("-", "_").replace("=", ": ") for size in SIZES)
    config = f"""
common: {{user_dir: {user_dir}}}
task: {{_name: code_switching_restore, data: {made.data}, source_lang: en, target_lang: de, langs: 'en,de', lexicon: {made.lexicon},
  sentencepiece_model: {made.model}, restore_updates: 5}}
model: {{_name: transformer, share_all_embeddings: true{sizes}}}
criterion: {{_name: label_smoothed_cross_entropy}}
optimization: {{lr: [0.01], update_freq: [2], max_update: 8}}
dataset: {{batch_size: 8}}
"""
    assert adam_steps(hydra(run_cli, tmp_path, config)) == {3}
    for options, message in (
        (["--lexicon", tmp_path], "ValueError: --lexicon"),
        (["--langs", "de,fr"], "ValueError: --source-lang en: the dictionary has no [en]"),
    ):
        last = last_line(train(tmp_path / "none", 1, *made.options(), *options, check=False))
        assert last.startswith(message) and not list((tmp_path / "none").glob("*.pt"))
