"""The comparison systems and the chunked cross-entropy under the stock commands."""

from .commands import hypotheses, logged, records, transformer


def test_nat_ctc_trains_and_decodes(world, train, decode, tmp_path):
    task = "--task sga_translation -s en -t de"
    more = f"""{task} --arch nat_ctc_tiny --criterion sga_ctc --max-epoch 2 --eval-bleu --no-epoch-checkpoints --embed-dim 16
        --ffn-embed-dim 16 --encoder-layers 1 --decoder-layers 1"""
    done = train(world.data, tmp_path, more)
    losses = logged(done, "valid_loss")
    assert losses[1] < losses[0] and len(logged(done, "valid_bleu")) == 2
    assert len(hypotheses(decode(world.data, tmp_path / "checkpoint_best.pt", f"{task} --batch-size 5"))) == 12


def test_the_chunked_criterion_trains_a_stock_model_as_the_stock_criterion_does(world, train, tmp_path):
    found = []
    for criterion in ("label_smoothed_linear_cross_entropy --loss-chunk-size 7", "label_smoothed_cross_entropy"):
        line = f"""-s en -t de --arch transformer_tiny --criterion {criterion} --label-smoothing 0.1 --dropout 0.1
            --max-update 4 --report-accuracy"""
        log = records(train(world.data, tmp_path / criterion.split()[0], line, *transformer()))
        keys = ("train_loss", "train_nll_loss", "valid_loss", "valid_accuracy")
        found.append([record[key] for record in log for key in keys if key in record])
    assert found[0] == found[1] and len(found[0]) >= 4
