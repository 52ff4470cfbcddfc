"""What a run's record says, and what a checkpoint tells of its languages."""

from argparse import Namespace

import pytest
import torch

from examples.recipes import record
from examples.sga import trained_with
from fairseq_plugins import checkpoints  # noqa: F401  (its import counts for no test)

STARTED = "2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. {} model params: {} (num. trained: {})\n"


def test_trained_parameters_are_those_of_the_last_start(tmp_path):
    log = tmp_path / "train.log"
    lines = [STARTED.format("shared", "5,424,754", "1,000"), STARTED.format("expert", 9, 9), "epoch 1\n"]
    lines += [STARTED.format("shared", "5,424,754", "1,524,800"), STARTED.format("expert", 0, 0)]
    log.write_text("".join(lines), encoding="utf-8")
    assert record.trained_parameters(log) == 1_524_800
    log.write_text("".join(lines[:2]), encoding="utf-8")
    assert record.trained_parameters(log) == 1_009
    log.write_text("epoch 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="train.log: no line 'num. shared model params"):
        record.trained_parameters(log)


def state(updates, seconds):
    history = [{"num_updates": 3}, {"num_updates": updates}]
    return {"optimizer_history": history, "extra_state": {"previous_training_time": seconds}}


def test_a_run_counts_the_stage_that_it_starts_from(tmp_path):
    assert record.updates_and_seconds(state(400, 30.0)) == (400, 30.0)
    assert record.earlier_stages(tmp_path) == (0, 0.0)
    (tmp_path / "restore").mkdir()
    torch.save(state(200, 12.5), tmp_path / "restore" / "checkpoint_last.pt")
    assert record.earlier_stages(tmp_path) == (200, 12.5)


def test_several_models_of_a_run_are_added_up(tmp_path):
    """A run of one model a language has no checkpoint of its own."""
    for number, language in enumerate(("de", "es"), 1):
        part = tmp_path / language
        part.mkdir()
        (part / "train.log").write_text(STARTED.format("shared", "9,000", f"{number},000"), encoding="utf-8")
        sections = {**{name: {} for name in ("model", "dataset", "common")}, "optimization": {"lr": [0.5]}}
        torch.save({**state(10 * number, 1.5), "cfg": sections}, part / "checkpoint_last.pt")
    found = record.describe(tmp_path)
    facts = [found[name] for name in ("updates", "train_seconds", "trained_parameters", "validation", "options")]
    assert facts == [30, 3.0, 3000, [], {"lr": [0.5]}]


MULTI = {"langs": ["de", "en", "fr"], "encoder_langtok": "src", "decoder_langtok": True}


@pytest.mark.cases(
    "task pairs tags",
    ({"source_lang": "en", "target_lang": "de"}, "en-de", None),
    ({"lang_pairs": "de-en,es-en", "source_lang": None}, "de-en,es-en", None),
    (
        {"lang_pairs": ["de-en"], "extra_lang_pairs": {"others": "fr-en,es-en"}, **MULTI},
        "de-en,fr-en,es-en",
        "--langs de,en,fr --encoder-langtok src --decoder-langtok",
    ),
    ({"source_lang": "en", "target_lang": "de", "langs": "en,de,fr"}, "en-de", "--langs en,de,fr"),
)
@pytest.mark.parametrize("kind", [dict, Namespace])
def test_what_a_checkpoint_was_trained_with(tmp_path, capsys, task, pairs, tags, kind):
    path = str(tmp_path / "run.pt")
    torch.save({"cfg": {"task": kind(_name="some_task", **task)}, "model": {}}, path)
    trained_with.main(["pairs", path])
    assert capsys.readouterr().out == pairs + "\n"
    if tags is not None:
        trained_with.main(["tags", path])
        assert capsys.readouterr().out == tags + "\n"
        return
    with pytest.raises(SystemExit):
        trained_with.main(["tags", path])
    assert "task some_task: has no --langs" in capsys.readouterr().err
