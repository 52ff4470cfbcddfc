"""Every option that the package adds is read somewhere, refuses what it does not know, and is listed by the command."""

import ast
import re
from argparse import ArgumentParser

import pytest
from fairseq.dataclass.utils import gen_parser_from_dataclass
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_plugins.__main__ import main
from fairseq_plugins.commands.reference import options, reference, registrations
from fairseq_plugins.compat import PATCHES
from tests.contract.repository import PACKAGE, sources

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's own deprecations, called by fairseq

OPTIONS = options(PACKAGE)
DATACLASSES = {f"{kind} {name}": given for kind, name, _, given in registrations(PACKAGE) if given is not None}
WRONG = {"int": "many", "float": "many"}


def reads():
    """Patterns of what the package reads: attributes, and strings that it uses as names, outside of declarations."""
    for source in sources(PACKAGE):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield re.escape(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.escape(node.value.rsplit(".", 1)[-1])  # getattr(cfg, "name"), or "task.name" interpolated
            elif isinstance(node, ast.JoinedStr):  # f"keep_{side}_layers"
                texts = [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]
                if sum(len(text or "") for text in texts) > 4:
                    yield "".join(r"\w+" if text is None else re.escape(text) for text in texts)


def test_every_option_is_read_somewhere():
    read = re.compile("|".join(sorted(set(reads()))))
    assert len(OPTIONS) > 30 and all(option.help for option in OPTIONS)
    assert [f"{option.owner}: {option.flag}" for option in OPTIONS if not read.fullmatch(option.name)] == []


def test_unknown_values_are_refused(capsys):
    """By argparse and by hydra. Models that have no dataclass of their own declare their options to argparse alone."""
    chosen = [option for option in OPTIONS if option.kind in WRONG or option.kind.startswith("`")]
    chosen = [(option, DATACLASSES[option.owner]) for option in chosen if option.owner in DATACLASSES]
    assert len(chosen) > 30
    for option, dataclass in chosen:
        parser, wrong = ArgumentParser(allow_abbrev=False), WRONG.get(option.kind, "none-of-these")
        gen_parser_from_dataclass(parser, dataclass())
        with pytest.raises(SystemExit):
            parser.parse_args([option.flag, wrong])
        assert f"argument {option.flag}" in capsys.readouterr().err
        with pytest.raises(OmegaConfBaseException):
            OmegaConf.merge(OmegaConf.structured(dataclass), {option.name: wrong})


def test_the_command_prints_the_reference(capsys):
    main(["options"])
    printed = capsys.readouterr().out
    assert printed == reference(PACKAGE)
    assert "`--prompt-length` | model sga | int | sga_tiny `32`, sga_xlmr_base `128`" in printed
    assert "eval_bleu" not in {option.name for option in OPTIONS if option.owner == "task sga_translation"}
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| `")]
    assert len({(row[0], *row[2:]) for row in rows}) == len(rows) < len(OPTIONS), "equal rows"
    assert sum(len(row[1].split(", ")) for row in rows) == len(OPTIONS)


def test_the_command_prints_the_patches(capsys):
    main(["patches"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == [f"| `{patch.name}`" for patch in PATCHES] and {len(row) for row in rows} == {3}
