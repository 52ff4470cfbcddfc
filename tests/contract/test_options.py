"""Every option that the package adds does something, and the reference of the options is current."""

from pathlib import Path
from typing import Dict

import pytest

from fairseq_plugins.__main__ import Option, main, options, reference
from tests.contract import (
    effects,
    effects_corruption,
    effects_csr,
    effects_models,
    effects_nlu,
    effects_sga_baselines,
    effects_sga_free,
    effects_sga_many,
    effects_training,
    effects_veco_data,
    effects_veco_model,
)
from tests.contract.repository import PACKAGE, ROOT, missing_test

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # hydra's own deprecations, called by fairseq

TABLES = (
    effects_corruption,
    effects_csr,
    effects_models,
    effects_nlu,
    effects_sga_baselines,
    effects_sga_free,
    effects_sga_many,
    effects_training,
    effects_veco_data,
    effects_veco_model,
)  # importing them fills the table
FLIPPED = sorted(key for key, effect in effects.EFFECTS.items() if not effect.test)
HOW = """
options that nothing shows to have an effect: {names}

Enter each in tests/contract/effects_models.py or effects_training.py. For example:

    flips("{first}", ["{flag}", "VALUE"], lambda run: run.shapes())

The observed value must differ when the arguments are added to BASES["{where}"], a command line that builds it at tiny size{base}.
Where only a command can show it: seen_by("{first}", "tests/cli/FILE.py::TEST").
"""


def registered() -> Dict[str, Option]:
    """Key in the table -> option, of everything the package adds."""
    return {f"{option.where}: {option.name}": option for option in options(PACKAGE)}


def explained(missing: Dict[str, Option]) -> str:
    """What to do about options that are in no entry."""
    first, option = next(iter(missing.items()))
    base = "" if option.where in effects.BASES else " (still to be written)"
    names = ", ".join(missing)
    return HOW.format(names=names, first=first, flag=option.flag, where=option.where, base=base)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> effects.World:
    """Data and masked LMs."""
    return effects.make_world(tmp_path_factory.mktemp("world"))


def test_every_option_is_in_the_table_and_nothing_else() -> None:
    found = registered()
    assert len(found) > 30
    missing = {key: option for key, option in found.items() if key not in effects.EFFECTS}
    assert not missing, explained(missing)
    assert sorted(set(effects.EFFECTS) - set(found)) == [], "entries of options that no longer exist"


def test_a_new_option_is_explained() -> None:
    new = {"model veco: routes": Option("model veco", "routes", "--routes", "int", "`2`", "routes")}
    text = explained(new)
    for part in ('flips("model veco: routes", ["--routes"', 'BASES["model veco"]', "still to be written", "seen_by("):
        assert part in text


def test_the_tests_that_show_options_exist() -> None:
    tests = [effect.test for effect in effects.EFFECTS.values() if effect.test]
    assert [missing_test(test) for test in tests if missing_test(test)] == []


@pytest.mark.parametrize("key", FLIPPED, ids=[key.replace(":", "").replace(" ", ".") for key in FLIPPED])
def test_flipping_it_changes_something(key: str, world: effects.World) -> None:
    effect = effects.EFFECTS[key]
    assert effect.observe is not None
    runs = [effects.Run(effects.command_line(key, world, flipped)) for flipped in (False, True)]
    assert runs[0].arguments != runs[1].arguments
    before, after = (effect.observe(run) for run in runs)
    assert before != after, f"{key}: {runs[1].arguments} gives {after!r}, as without it"


@pytest.mark.parametrize(
    "key", ["model sga: prompt_length", "criterion sga_ctc: denoise_noise", "scoring rouge: rouge_cased"]
)
def test_what_is_observed_does_not_change_by_itself(key: str, world: effects.World) -> None:
    observe = effects.EFFECTS[key].observe
    assert observe is not None
    first, second = (observe(effects.Run(effects.command_line(key, world, True))) for _ in range(2))
    assert first == second


# ---- The reference. ----


def test_the_reference_is_current() -> None:
    path = ROOT / PACKAGE / "OPTIONS.md"
    command = f"python -m {PACKAGE} options >{path.relative_to(ROOT).as_posix()}"
    assert path.read_text(encoding="utf-8") == reference(PACKAGE), f"make it again: {command}"
    assert command in path.read_text(encoding="utf-8")
    assert f"({PACKAGE}/OPTIONS.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_command_prints_the_reference(capsys: pytest.CaptureFixture) -> None:
    main(["options"])
    assert capsys.readouterr().out == reference(PACKAGE)


def test_the_reference_tells_types_choices_and_defaults_of_architectures() -> None:
    found = registered()
    assert found["model sga: prompt_length"][2:5] == (
        "--prompt-length",
        "int",
        "sga_tiny `32`, sga_xlmr_base `128`, sga_xlmr_large `128`",
    )
    assert found["model sga: no_denoising"].kind == "flag"
    assert found["task tlm_pretraining: data"][2:5] == ("data", "str", "required")
    assert found["task tlm_pretraining: pairs"].default == "empty"
    assert all(option.help for option in found.values())
    # Inherited or interpolated options are declared elsewhere.
    assert not {"task sga_translation: eval_bleu", "criterion sga_ctc: sentence_avg"} & set(found)


def test_options_of_add_args_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model without a dataclass: what it adds to the parser of its fairseq parent, defaults from its architectures."""
    from fairseq import models
    from fairseq.models.transformer import TransformerModel

    class Added(TransformerModel):
        @classmethod
        def add_args(cls, parser):  # type: ignore[no-untyped-def]
            TransformerModel.add_args(parser)
            parser.add_argument("--added-mode", choices=["a|b", "c"], default="c", help="a | b, 100%%")

    Added.__module__ = f"{PACKAGE}.models.added"
    monkeypatch.setitem(__import__("sys").modules, Added.__module__, models)
    monkeypatch.setitem(models.MODEL_REGISTRY, "added", Added)
    monkeypatch.setitem(models.ARCH_MODEL_INV_REGISTRY, "added", ["added_tiny", "added_big"])
    monkeypatch.setitem(models.ARCH_CONFIG_REGISTRY, "added_tiny", lambda args: None)
    monkeypatch.setitem(models.ARCH_CONFIG_REGISTRY, "added_big", lambda args: setattr(args, "added_mode", "a|b"))
    found = [option for option in options(PACKAGE) if option.where == "model added"]
    assert [option[1:] for option in found] == [
        ("added_mode", "--added-mode", "`a|b`, `c`", "added_tiny `c`, added_big `a|b`", "a | b, 100%")
    ]
    row = next(line for line in reference(PACKAGE).splitlines() if "`--added-mode`" in line)
    assert row.replace("\\|", "").count("|") == 6
