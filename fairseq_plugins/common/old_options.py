"""Options of papers' command lines that fairseq renamed, or that other forks have."""

import argparse
from typing import Any, Mapping


def add_old_options(parser: argparse.ArgumentParser) -> None:
    """Let ``--min-lr`` set ``--stop-min-lr``, and ``--sacrebleu`` choose ``--scoring sacrebleu``.

    fairseq refuses the former; it reads the latter, and scores with tokenized BLEU all the same.
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
    """Let each option of another fork end the command with what it is here."""
    for option, equivalent in foreign.items():
        parser.add_argument(
            option,
            action=_Foreign,
            const=equivalent,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )


class _MinLR(argparse.Action):
    """fairseq's cosine schedule still has a ``--min-lr`` of its own, which is another thing."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        cosine = getattr(namespace, "lr_scheduler", None) == "cosine"
        setattr(namespace, "min_lr" if cosine else "stop_min_lr", values)


class _Foreign(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        parser.error(
            f"{option} {values}: is an option of the authors' fork of fairseq; here, {self.const}"
        )
