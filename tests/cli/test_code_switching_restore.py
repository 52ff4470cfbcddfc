"""Restore and fine-tuning under the stock commands: two commands, one run, a killed one, hydra. Each in a subprocess."""

import pytest

from tests import csr_builders

from .commands import checkpoint, hypotheses, largest_difference, logged, records, transformer

pytestmark = pytest.mark.slow
SIZES = [*transformer(ffn=24), "--max-source-positions=64", "--max-target-positions=64"]
MODEL = f"""--arch mbart_base --share-all-embeddings --dropout 0.1 --criterion label_smoothed_cross_entropy
    --label-smoothing 0.2 --adam-betas (0.9,0.98) --no-epoch-checkpoints {" ".join(SIZES)}"""
PAIR = f"-s en -t de --langs {csr_builders.LANGS}"
STOCK = f"--task translation_from_pretrained_bart {PAIR}"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return csr_builders.write(tmp_path_factory.mktemp("csr"))


@pytest.fixture
def run(train, made):
    """A tiny run of an mBART up to an update."""
    line = f"{MODEL} --max-update"
    return lambda folder, updates, *more, **options: train(made.data, folder, f"{line} {updates}", *more, **options)


def assert_equal_runs(first, second):
    assert largest_difference(first, second) == 0.0
    left, right = (checkpoint(folder)["last_optimizer_state"]["state"] for folder in (first, second))
    assert left.keys() == right.keys()
    assert all((left[key]["exp_avg"] == right[key]["exp_avg"]).all() for key in left)


def adam_steps(folder):
    return {int(value["step"]) for value in checkpoint(folder)["last_optimizer_state"]["state"].values()}


def test_two_commands(made, run, decode, run_cli, tmp_path):
    """Restore, killed inside its second epoch and continued with two workers; fine-tuning with the stock task; decoding."""
    whole, parts, tuned = (tmp_path / name for name in ("whole", "parts", "tuned"))
    done = run(whole, 26, *made.options())
    shares = logged(done, "train_switched")
    assert len(shares) == 3 and all(0.3 < share < 0.4 for share in shares[:2])
    assert len(set(logged(done, "valid_switched"))) == 1 and logged(done, "valid_coverage")[0] == 1
    run(parts, 15, *made.options(), "--disable-validation")
    run(parts, 26, *made.options(), "--disable-validation", "--num-workers", 2)
    assert_equal_runs(whole, parts)

    run(tuned, 6, *STOCK.split(), "--finetune-from-model", whole / "checkpoint_last.pt")
    options = "--max-len-b 15 --beam 2"
    tasks, last = (STOCK, f"--task code_switching_restore {PAIR}"), tuned / "checkpoint_last.pt"
    first, second = (decode(made.data, last, f"{options} {task}") for task in tasks)
    assert hypotheses(first) == hypotheses(second) and len(hypotheses(first)) == 8
    source = [text.replace(" [en]", "") for text in hypotheses(first, "S").values()]
    line = ["fairseq_plugins", "translate", tuned, "--cpu", *options.split()]
    found = run_cli(*line, stdin="\n" + "\n".join(source) + "\n")
    assert found.stdout.splitlines() == ["", *(hypotheses(first)[number] for number in hypotheses(first, "S"))]


def test_both_stages_in_one_run(made, run, tmp_path):
    """12 restore batches an epoch, 6 of translation, 2 an update: 6 updates, 2 more, then 3 an epoch. The continued runs begin
    inside the epoch that is cut, and exactly at the switch."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = [*made.options(), "--restore-updates", 8, "--update-freq", 2]
    done = run(whole, 16, *options)
    assert logged(done, "train_num_updates") == [6, 8, 11, 14, 16]
    inner = [record for record in records(done) if "num_updates" in record]
    switched = [int(record["num_updates"]) for record in inner if record.get("switched") is not None]
    assert len(inner) == 16 and switched == list(range(1, 9))
    assert not logged(done, "valid_switched"), "validation is translation throughout"
    # Adam counts its steps, and begins anew with update 9.
    for updates, steps in ((7, 7), (8, 8), (16, 8)):
        run(parts, updates, *options, "--disable-validation")
        assert adam_steps(parts) == {steps}, updates
    assert_equal_runs(whole, parts)
