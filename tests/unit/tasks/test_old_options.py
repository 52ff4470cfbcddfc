"""Options of papers' command lines: what they set in the tasks that know them, and that stock tasks do not."""

import pytest
from fairseq import options

VECO = ["--task", "translation_from_pretrained_veco", "--arch", "transformer"]


def parse(line, parser=options.get_training_parser):
    return options.parse_args_and_arch(parser(), ["data", *map(str, line)])


@pytest.mark.parametrize(("scheduler", "stop", "own"), [("fixed", 0.5, None), ("cosine", -1.0, 0.5)])
def test_min_lr(scheduler, stop, own):
    """The cosine schedule has such an option itself."""
    args = parse([*VECO, "--lr-scheduler", scheduler, "--min-lr", 0.5])
    assert (args.stop_min_lr, getattr(args, "min_lr", None)) == (stop, own)


def test_min_lr_left_out():
    assert parse(VECO).stop_min_lr == -1.0


@pytest.mark.parametrize(
    ("given", "scoring"), [([], "bleu"), (["--sacrebleu"], "sacrebleu"), (["--scoring", "chrf"], "chrf")]
)
def test_sacrebleu(given, scoring):
    args = parse([*VECO[:2], "--path", "model.pt", *given], options.get_generation_parser)
    assert args.scoring == scoring


@pytest.mark.parametrize("option", ["--min-lr", "--competence-step"])
def test_stock_tasks_are_as_ever(option, capsys):
    with pytest.raises(SystemExit):
        parse(["--arch", "transformer", "--lr-scheduler", "fixed", option, 1])
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err
