"""The analyses of code-switching restore, as a user types them."""

from tests import nlu_builders

CLI = "fairseq_plugins.analysis."


def test_distance_frequencies_and_curves(run_cli, tmp_path):
    nlu_builders.mbart_cc25(tmp_path / "cc25")
    (tmp_path / "en").write_text("p1 p2\np3\n", encoding="utf-8")
    (tmp_path / "de").write_text("p5\np6 p7\n", encoding="utf-8")
    (tmp_path / "log").write_text("epoch 001 | valid on 'valid' subset | loss 2 | num_updates 51\n", encoding="utf-8")
    files = ["--source", tmp_path / "en", "--target", tmp_path / "de", "--source-lang", "en", "--target-lang", "de"]
    done = run_cli(CLI + "language_distance", tmp_path / "cc25", *files, "--sentencepiece", "none", "--cpu")
    assert "distance of en and de" in done.stdout and "2 sentences" in done.stderr
    files = ["--train", tmp_path / "en", "--reference", tmp_path / "de", "--output", f"x={tmp_path / 'en'}"]
    assert "| x " in run_cli(CLI + "frequency_f1", *files).stdout
    assert "valid.loss (lower is better)" in run_cli(CLI + "training_curves", f"x={tmp_path / 'log'}").stdout
