"""Test that every option of the package is read, refuses unknown values, and is documented."""

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

# fairseq calls deprecated functions of hydra.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OPTIONS = options(PACKAGE)
DATACLASSES = {
    f"{kind} {name}": dataclass
    for kind, name, _, dataclass in registrations(PACKAGE)
    if dataclass is not None
}
WRONG = {"int": "many", "float": "many"}


def reads():
    """Yield patterns of the names that the package reads: attributes, and strings used as names."""
    for source in sources(PACKAGE):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield re.escape(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # getattr(cfg, "name"), or "task.name" interpolated
                yield re.escape(node.value.rsplit(".", 1)[-1])
            elif isinstance(node, ast.JoinedStr):  # f"keep_{side}_layers"
                texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                if sum(map(len, texts)) > 4:
                    yield "".join(
                        re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+"
                        for part in node.values
                    )


def test_every_option_is_read_somewhere():
    pattern = re.compile("|".join(sorted(set(reads()))))
    assert len(OPTIONS) > 30 and all(option.help for option in OPTIONS)
    unread = [option for option in OPTIONS if not pattern.fullmatch(option.name)]
    assert [f"{option.owner}: {option.flag}" for option in unread] == []


def test_argparse_and_hydra_refuse_unknown_values(capsys):
    """Leave out options of models without a dataclass: only argparse knows these."""
    typed = [
        option
        for option in OPTIONS
        if option.owner in DATACLASSES and (option.kind in WRONG or option.kind.startswith("`"))
    ]
    assert len(typed) > 30
    for option in typed:
        dataclass, wrong = DATACLASSES[option.owner], WRONG.get(option.kind, "none-of-these")
        parser = ArgumentParser(allow_abbrev=False)
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
    names = {option.name for option in OPTIONS if option.owner == "task sga_translation"}
    assert "eval_bleu" not in names
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| `")]
    assert len({(row[0], *row[2:]) for row in rows}) == len(rows) < len(OPTIONS)
    assert sum(len(row[1].split(", ")) for row in rows) == len(OPTIONS)


def test_the_command_prints_the_patches(capsys):
    main(["patches"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == [f"| `{patch.name}`" for patch in PATCHES]
    assert {len(row) for row in rows} == {3}
