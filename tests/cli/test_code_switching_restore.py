"""Test restore and fine-tuning under the stock commands: two commands, one run, a resumed run."""

import pytest

from tests import csr_builders

from .commands import checkpoint, hypotheses, largest_difference, logged, records, transformer

pytestmark = pytest.mark.slow
SIZES = [*transformer(ffn=24), "--max-source-positions=64", "--max-target-positions=64"]
MODEL = f"""--arch mbart_base --share-all-embeddings --dropout 0.1 --label-smoothing 0.2
    --criterion label_smoothed_cross_entropy --adam-betas (0.9,0.98) --no-epoch-checkpoints
    {" ".join(SIZES)}"""
PAIR = f"-s en -t de --langs {csr_builders.LANGS}"
STOCK = f"--task translation_from_pretrained_bart {PAIR}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return csr_builders.write(tmp_path_factory.mktemp("csr"))


@pytest.fixture
def run(train, corpus):
    """Train a tiny mBART up to an update."""

    def train_until(folder, updates, *more):
        return train(corpus.data, folder, f"{MODEL} --max-update {updates}", *more)

    return train_until


def assert_equal_runs(first, second):
    assert largest_difference(first, second) == 0.0
    left, right = (checkpoint(run)["last_optimizer_state"]["state"] for run in (first, second))
    assert left.keys() == right.keys()
    assert all((left[key]["exp_avg"] == right[key]["exp_avg"]).all() for key in left)


def adam_steps(folder):
    states = checkpoint(folder)["last_optimizer_state"]["state"].values()
    return {int(state["step"]) for state in states}


def test_restore_resumes_exactly_and_the_stock_task_fine_tunes(
    corpus, run, decode, run_cli, tmp_path
):
    """Resume restore inside its second epoch with two workers; fine-tune; decode."""
    unbroken, resumed, tuned = (tmp_path / name for name in ("unbroken", "resumed", "tuned"))
    process = run(unbroken, 26, *corpus.options())
    shares = logged(process, "train_switched")
    assert len(shares) == 3
    assert all(0.3 < share < 0.4 for share in shares[:2])
    assert len(set(logged(process, "valid_switched"))) == 1
    assert logged(process, "valid_coverage")[0] == 1
    run(resumed, 15, *corpus.options(), "--disable-validation")
    run(resumed, 26, *corpus.options(), "--disable-validation", "--num-workers", 2)
    assert_equal_runs(unbroken, resumed)

    last, beam = tuned / "checkpoint_last.pt", "--max-len-b 15 --beam 2"
    run(tuned, 6, *STOCK.split(), "--finetune-from-model", unbroken / "checkpoint_last.pt")
    stock = decode(corpus.data, last, f"{beam} {STOCK}")
    restore = decode(corpus.data, last, f"{beam} --task code_switching_restore {PAIR}")
    assert hypotheses(stock) == hypotheses(restore)
    assert len(hypotheses(stock)) == 8
    source = {key: text.replace(" [en]", "") for key, text in hypotheses(stock, "S").items()}
    stdin = "\n".join(["", *source.values(), ""])
    line = ["fairseq_plugins", "translate", tuned, "--cpu", *beam.split()]
    translations = run_cli(*line, stdin=stdin).stdout.splitlines()
    assert translations == ["", *(hypotheses(stock)[key] for key in source)]


def test_both_stages_in_one_run(corpus, run, tmp_path):
    """Resume inside the epoch of the switch, and exactly at the switch.

    An epoch has 12 restore batches or 6 of translation, an update has 2 batches: the epochs end
    after 6 updates, 2 more, then every 3.
    """
    unbroken, resumed = tmp_path / "unbroken", tmp_path / "resumed"
    options = [*corpus.options(), "--restore-updates", 8, "--update-freq", 2]
    process = run(unbroken, 16, *options)
    assert logged(process, "train_num_updates") == [6, 8, 11, 14, 16]
    updates = [record for record in records(process) if "num_updates" in record]
    assert len(updates) == 16
    restore = [record for record in updates if record.get("switched") is not None]
    assert [int(record["num_updates"]) for record in restore] == list(range(1, 9))
    assert not logged(process, "valid_switched"), "validation is translation throughout"
    # Adam counts its steps and starts anew at update 9.
    for last_update, steps in ((7, 7), (8, 8), (16, 8)):
        run(resumed, last_update, *options, "--disable-validation")
        assert adam_steps(resumed) == {steps}, last_update
    assert_equal_runs(unbroken, resumed)
