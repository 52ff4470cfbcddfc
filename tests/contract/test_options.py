"""Every option that the package adds is read, means the same to argparse and hydra, and refuses what it does not know."""

import ast
import contextlib
import dataclasses
import io
import re
from argparse import ArgumentParser

import pytest
from fairseq.dataclass.utils import gen_parser_from_dataclass
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_plugins.__main__ import main, options, reference, registrations
from tests.contract.repository import PACKAGE, sources

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's own deprecations, called by fairseq

OPTIONS = options(PACKAGE)
DATACLASSES = {(kind, name): dataclass for kind, name, _, dataclass in registrations(PACKAGE) if dataclass is not None}
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


def parser_of(dataclass):
    """What the dataclass adds to the command line."""
    parser = ArgumentParser(allow_abbrev=False)
    gen_parser_from_dataclass(parser, dataclass())
    return parser


def test_every_option_is_read_somewhere():
    read = re.compile("|".join(sorted(set(reads()))))
    assert len(OPTIONS) > 30 and all(option.help for option in OPTIONS)
    assert [f"{option.where}: {option.flag}" for option in OPTIONS if not read.fullmatch(option.name)] == []


@pytest.mark.parametrize("kind_and_name", DATACLASSES, ids=" ".join)
def test_hydra_and_argparse_have_the_same_options_types_and_defaults(kind_and_name):
    kind, name = kind_and_name
    dataclass = DATACLASSES[kind_and_name]
    hydra = OmegaConf.to_container(ConfigStore.instance().repo[kind][f"{name}.yaml"].node, resolve=False)
    argparse = {action.dest: action for action in parser_of(dataclass)._actions}
    for field in dataclasses.fields(dataclass):
        default = getattr(dataclass(), field.name)
        if field.name.startswith("_") or str(default).startswith("${"):
            continue  # what another dataclass declares
        assert hydra[field.name] == default
        action = argparse[field.name]
        if default == MISSING:
            assert action.required or not action.option_strings
        else:
            assert action.default == default or action.default == getattr(default, "value", default)


@pytest.mark.parametrize(
    "option",
    [
        option
        for option in OPTIONS
        if tuple(option.where.split(" ", 1)) in DATACLASSES and (option.kind in WRONG or option.kind.startswith("`"))
    ],
    ids=lambda option: f"{option.where} {option.name}",
)
def test_unknown_values_are_refused(option):
    dataclass = DATACLASSES[tuple(option.where.split(" ", 1))]
    wrong = WRONG.get(option.kind, "none-of-these")
    with pytest.raises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        parser_of(dataclass).parse_args([option.flag, wrong])
    with pytest.raises(OmegaConfBaseException):
        OmegaConf.merge(OmegaConf.structured(dataclass), {option.name: wrong})


def test_the_command_prints_the_reference(capsys):
    main(["options"])
    printed = capsys.readouterr().out
    assert printed == reference(PACKAGE)
    rows = [line for line in printed.splitlines() if line.startswith("| `")]
    assert len(rows) == len(OPTIONS) and all(row.replace("\\|", "").count("|") == 6 for row in rows)
    assert any("`--prompt-length` | model sga | int | sga_tiny `32`, sga_xlmr_base `128`" in row for row in rows)
    # Inherited or interpolated options are declared elsewhere.
    assert not {("task sga_translation", "eval_bleu"), ("criterion sga_ctc", "sentence_avg")} & {
        (option.where, option.name) for option in OPTIONS
    }
