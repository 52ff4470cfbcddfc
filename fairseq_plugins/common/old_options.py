"""Options in published command lines that fairseq has renamed, or that only a fork has."""

import argparse
from typing import Any, Mapping


def add_old_options(parser: argparse.ArgumentParser) -> None:
    """Let ``--min-lr`` set ``--stop-min-lr``, and ``--sacrebleu`` choose ``--scoring sacrebleu``.

    fairseq refuses ``--min-lr``. It accepts ``--sacrebleu`` but still scores tokenized BLEU.
    """
    actions = parser._option_string_actions
    if "--stop-min-lr" in actions and "--min-lr" not in actions:
        parser.add_argument(
            "--min-lr", action=_MinLR, type=float, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    if "--sacrebleu" in actions and "--scoring" in actions:
        flag: Any = actions["--sacrebleu"]
        flag.dest, flag.const, flag.default = "scoring", "sacrebleu", argparse.SUPPRESS


def refuse_options(parser: argparse.ArgumentParser, foreign: Mapping[str, str]) -> None:
    """Refuse options of a fork of fairseq by a message that names the equivalent here.

    Args:
        foreign: option -> its equivalent, as the end of a sentence.
    """
    hidden = argparse.SUPPRESS
    for option, equivalent in foreign.items():
        parser.add_argument(option, action=_Foreign, const=equivalent, default=hidden, help=hidden)


class _MinLR(argparse.Action):
    """Store ``--min-lr`` as ``--stop-min-lr``.

    With ``--lr-scheduler cosine`` it stays ``--min-lr``, the last learning rate of the schedule.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        cosine = getattr(namespace, "lr_scheduler", None) == "cosine"
        setattr(namespace, "min_lr" if cosine else "stop_min_lr", values)


class _Foreign(argparse.Action):
    """End the command with a message that names the equivalent, ``const``."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        parser.error(
            f"{option} {values}: is an option of the authors' fork of fairseq; here, {self.const}"
        )
