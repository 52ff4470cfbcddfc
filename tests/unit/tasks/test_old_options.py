"""Options of papers' command lines: what they set in the tasks that know them, and that stock tasks do not."""

import pytest
from fairseq import options

VECO = ["--task", "translation_from_pretrained_veco", "--arch", "transformer"]


def parse(line, parser=options.get_training_parser):
    return options.parse_args_and_arch(parser(), ["data", *map(str, line)])


def test_min_lr():
    """The cosine schedule has such an option itself."""
    for scheduler, stop, own in (("fixed", 0.5, None), ("cosine", -1.0, 0.5)):
        args = parse([*VECO, "--lr-scheduler", scheduler, "--min-lr", 0.5])
        assert (args.stop_min_lr, getattr(args, "min_lr", None)) == (stop, own)
    assert parse(VECO).stop_min_lr == -1.0


def test_sacrebleu():
    for given, scoring in (([], "bleu"), (["--sacrebleu"], "sacrebleu"), (["--scoring", "chrf"], "chrf")):
        args = parse([*VECO[:2], "--path", "model.pt", *given], options.get_generation_parser)
        assert args.scoring == scoring


@pytest.mark.parametrize(("option", "ours"), [("--competence-step", "--restore-updates"), ("--min-lr", "")])
def test_stock_tasks_are_as_ever_and_ours_name_their_own_option(option, ours, capsys):
    line = ["--arch", "transformer", "--lr-scheduler", "fixed", option, 1]
    with pytest.raises(SystemExit):
        parse(line)
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err
    if ours:
        with pytest.raises(SystemExit):
            parse([*line, "--task", "code_switching_restore", "--langs", "de,en"])
        assert ours in capsys.readouterr().err.strip().splitlines()[-1]
