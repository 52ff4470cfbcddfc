"""Options of papers' command lines: those that fairseq renamed (``--min-lr``, ``--sacrebleu``), and those of other forks."""

import argparse
import logging
from typing import Any, Callable, Dict, NoReturn, Optional

from .patch import Patch, instead_of, is_patched

logger = logging.getLogger(__name__)

NAME = "renamed_options"
OLD, NEW = "--min-lr", "--stop-min-lr"
FOREIGN: Dict[str, str] = {
    "--competence-step": "the restore stage is --task code_switching_restore, for all updates of the run, or for the first N with "
    "--restore-updates N; a run without it (their -1) is one without that task",
    "--span-length": "--task code_switching_restore has --switch-span, the mean of the Poisson law of the spans in words (their -1 "
    "means: leave it out)",
}
"""Option of the authors' fork of fairseq (code-switching restore) -> what it is called here."""


def _forgot_old_names() -> bool:
    from fairseq import options
    from fairseq.dataclass.configs import OptimizationConfig

    return not is_patched(options.parse_args_and_arch, NAME) and hasattr(OptimizationConfig(), "stop_min_lr")


def _accept_old_names() -> None:
    from fairseq import options

    stock = options.parse_args_and_arch

    @instead_of(stock, NAME)
    def parse_args_and_arch(
        parser: argparse.ArgumentParser,
        *args: Any,
        modify_parser: Optional[Callable[[argparse.ArgumentParser], None]] = None,
        **kwargs: Any,
    ) -> Any:
        calls = []

        def modify(changed: argparse.ArgumentParser) -> None:
            if modify_parser is not None:
                modify_parser(changed)
            calls.append(changed)
            if len(calls) == 2:  # the schedulers' own options are there now: cosine's --min-lr is another thing
                _add_old_name(changed)
                _refuse_foreign(changed)

        parsed = stock(parser, *args, modify_parser=modify, **kwargs)
        _score_as_asked(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    options.parse_args_and_arch = parse_args_and_arch


def _add_old_name(parser: argparse.ArgumentParser) -> None:
    """Let ``--min-lr`` set what is called ``--stop-min-lr`` now, unless something else has that name."""
    known = parser._option_string_actions
    if NEW in known and OLD not in known:
        parser.add_argument(
            OLD, dest=known[NEW].dest, type=float, default=argparse.SUPPRESS, metavar="D", help=f"former name of {NEW}"
        )


class _Foreign(argparse.Action):
    """Ends the command with the name that an option has here."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None) -> NoReturn:
        parser.error(f"{option} {values}: is an option of the authors' fork of fairseq; here, {FOREIGN[str(option)]}")


def _refuse_foreign(parser: argparse.ArgumentParser) -> None:
    for option in FOREIGN:
        if option not in parser._option_string_actions:
            parser.add_argument(option, action=_Foreign, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _score_as_asked(args: argparse.Namespace) -> None:
    """Stock parses ``--sacrebleu`` and scores with tokenized BLEU."""
    if getattr(args, "sacrebleu", False) and getattr(args, "scoring", None) == "bleu":
        logger.info("--sacrebleu: scoring with --scoring sacrebleu, as the option is called now")
        args.scoring = "sacrebleu"


RENAMED_OPTIONS = Patch(
    name=NAME,
    reason="--min-lr is unknown (now --stop-min-lr) and --sacrebleu is read but ignored (now --scoring sacrebleu)",
    upstream="facebookresearch/fairseq#3878, #5064",
    needed=_forgot_old_names,
    apply=_accept_old_names,
)
