"""The comparison systems and the chunked cross-entropy under the stock commands."""

from .commands import hypotheses, logged, records, transformer

PAIR = "-s en -t de --cpu"
TRAINING = (
    f"{PAIR} --optimizer adam --lr 0.01 --max-sentences 8 --log-format json --log-interval 1 --num-workers 0 --seed 5"
)


def arguments(world, user_dir, save_dir, *more):
    return [
        world.data,
        "--user-dir",
        user_dir,
        *TRAINING.split(),
        "--save-dir",
        save_dir,
        "--no-epoch-checkpoints",
        *more,
    ]


def test_nat_ctc_trains_and_decodes(world, run_cli, user_dir, tmp_path):
    more = "--task sga_translation --arch nat_ctc_tiny --embed-dim 16 --ffn-embed-dim 16 --encoder-layers 1 --decoder-layers 1"
    more += " --criterion sga_ctc --max-epoch 2 --eval-bleu"
    done = run_cli("train", *arguments(world, user_dir, tmp_path, *more.split()))
    losses = logged(done, "valid_loss")
    assert losses[1] < losses[0] and len(logged(done, "valid_bleu")) == 2
    line = [world.data, "--user-dir", user_dir, *PAIR.split(), "--task", "sga_translation", "--batch-size", 5]
    assert len(hypotheses(run_cli("generate", *line, "--path", tmp_path / "checkpoint_best.pt"))) == 12


def test_the_chunked_criterion_trains_a_stock_model_as_the_stock_criterion_does(world, run_cli, user_dir, tmp_path):
    found = {}
    for name, chunk in (
        ("label_smoothed_linear_cross_entropy", "--loss-chunk-size=7"),
        ("label_smoothed_cross_entropy", ""),
    ):
        more = (
            f"--task translation --arch transformer_tiny --criterion {name} {chunk} --label-smoothing 0.1 --dropout 0.1"
        )
        more = [*more.split(), *transformer(), "--max-update", 4, "--report-accuracy"]
        log = records(run_cli("train", *arguments(world, user_dir, tmp_path / name, *more)))
        keys = ("train_loss", "train_nll_loss", "valid_loss", "valid_accuracy")
        found[name] = [record[key] for record in log for key in keys if key in record]
    assert len(found[name]) >= 4
    assert found["label_smoothed_linear_cross_entropy"] == found["label_smoothed_cross_entropy"]
