"""SGA's scripts: which pairs and cases they take, and what they give to the programs that they call."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from fairseq_plugins import checkpoints  # noqa: F401  (its import counts for no test)
from tests.contract.repository import ROOT


def bash(script: str, **env: str) -> Any:
    given = {**os.environ, "PYTHON": sys.executable, **env}
    return subprocess.run(["bash", "-c", script], cwd=ROOT, env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, "en-de|en-de,en-fr|de,en,fr|en-fr"),
        ({"PAIR": "de-en"}, "de-en|de-en,fr-en|de,en,fr|fr-en"),
        ({"PAIR": "fr-en"}, "fr-en|de-en,fr-en|de,en,fr|de-en"),
        ({"PAIR": "de-fr", "PAIRS": "de-fr"}, "de-fr|de-fr|de,fr|"),
        ({"PAIR": "de-en", "PAIRS": "es-en,de-en,ru-en"}, "de-en|es-en,de-en,ru-en|de,en,es,ru|es-en,ru-en"),
    ],
)
def test_pairs_of_the_multilingual_systems(env: Dict[str, str], found: str) -> None:
    script = 'out=o; . examples/sga/settings_tagged.sh; echo "$pair|$pairs|$langs|$others"; printf "%s\\n" "${multilingual[@]}"'
    first, *options = bash(script, **env).stdout.splitlines()
    pair, _, langs, others = found.split("|")
    assert first == found
    assert options[options.index("--lang-pairs") + 1] == pair and options[options.index("--langs") + 1] == langs
    if others:
        assert options[options.index("--extra-lang-pairs") + 1] == "{'others': '" + others + "'}"
    else:
        assert "--extra-lang-pairs" not in options


@pytest.mark.parametrize(
    ("command", "env", "message"),
    [
        (
            "train_mtransformer.sh {out} n 1 1",
            {"PAIR": "de-fr"},
            "PAIR is 'de-fr'; valid: one of PAIRS, which is en-de,en-fr",
        ),
        ("train_adapter.sh {out} n 1 1", {"PAIRS": "de-en"}, "PAIR is 'en-de'; valid: one of PAIRS, which is de-en"),
        (
            "evaluate.sh {out} n '0 beams'",
            {},
            "CASE is 'beams'; valid: a number of denoising passes, beam, tagged, mbart",
        ),
        (
            "evaluate.sh {out} n 0 --nbest=5",
            {},
            "--nbest: this script keeps one output a sentence; valid: fairseq-generate itself",
        ),
        (
            "prepare_many.sh bible ntrex {out}",
            {"MLM": "x/model.pt"},
            "MLM is 'x/model.pt': no x/model.pt/sentencepiece.bpe.model; valid: the folder of a masked LM, or nothing for "
            "pieces of this text",
        ),
        (
            "train_mbart.sh {out} mbart 1 1",
            {},
            "NAME mbart: OUT/mbart is the folder of prepare_mbart.sh; valid: another name",
        ),
        ("prepare_mbart.sh nowhere", {}, "OUT nowhere: no nowhere/bin/pieces; valid: a folder made by prepare.sh"),
        (
            "prepare_mixed.sh nowhere",
            {"TRAINED": "ru"},
            "OUT nowhere: no nowhere/bin/pieces/train.ru; valid: a folder made by prepare.sh, TRAINED and TARGET of its languages",
        ),
        ("train_each.sh {out} n 1 1", {"SYSTEM": "free"}, "SYSTEM is 'free'; valid: many (SGA), msp, at, from_xlmr"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, command: str, env: Dict[str, str], message: str) -> None:
    done = bash(f"bash examples/sga/{command.format(out=tmp_path)}", KEEP=str(tmp_path), **env)
    assert done.returncode == 2 and done.stderr == message + "\n"


FAKE = r"""#!/usr/bin/env bash
# Stands for Python and fairseq-generate: notes its arguments, answers for trained_with.py.
echo "$(basename "$0") $*" >>"$CALLS"
case "$*" in
    *trained_with.py\ pairs*) echo "fr-en,de-en,de-fr" ;;
    *trained_with.py\ tags*) echo "--langs de_DE,en_XX" ;;
esac
"""


def calls_of(tmp_path: Path, command: str, **env: str) -> List[List[str]]:
    """Command lines that a script runs when its programs do nothing."""
    for name in ("python", "fairseq-preprocess", "fairseq-train", "fairseq-generate"):
        (tmp_path / name).write_text(FAKE, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    calls = tmp_path / "calls"
    calls.write_text("", encoding="utf-8")
    done = bash(f"bash examples/sga/{command}", CALLS=str(calls), PATH=path, PYTHON=str(tmp_path / "python"), **env)
    assert done.returncode == 0, done.stderr
    return [line.split(" ") for line in calls.read_text(encoding="utf-8").splitlines()]


def value(call: List[str], option: str) -> str:
    return call[len(call) - call[::-1].index(option)]


@pytest.mark.parametrize(
    ("own", "found"), [([], ["{text}"]), (["de"], ["de={own}", "{text}"]), (["de", "fr"], ["de={own}", "fr={own}"])]
)
@pytest.mark.parametrize("script", ["evaluate_many", "evaluate_each"])
def test_pairs_with_sentences_of_their_own_have_references_of_their_own(
    tmp_path: Path, script: str, own: List[str], found: List[str]
) -> None:
    """As those of TED; other languages share one."""
    for language in own:
        (tmp_path / "text" / f"{language}-en").mkdir(parents=True)
        (tmp_path / "text" / f"{language}-en" / "test.en").touch()
    calls = calls_of(tmp_path, f"{script}.sh {tmp_path} run 3", TRAINED="de fr", ZERO="", SUBSETS="test")
    names = {"text": f"{tmp_path}/text/test.en"}
    expected = [one.format(own=f"{tmp_path}/text/{one[:2]}-en/test.en", **names) for one in found]
    assert [calls[-1][place + 1] for place, word in enumerate(calls[-1]) if word == "--reference"] == expected
    lines = [value(call, "--lines-of") for call in calls if "--lines-of" in call]
    assert lines == [f"{tmp_path}/text/{one}-en/test.en" if one in own else names["text"] for one in ("de", "fr")]


def test_models_of_each_language_share_the_wall_time(tmp_path: Path) -> None:
    """A finished one does not start again."""
    command = f"train_each.sh {tmp_path} run 1 7 --lr 0.1"
    (tmp_path / "run" / "es").mkdir(parents=True)
    (tmp_path / "run" / "es" / "done").touch()
    calls = calls_of(tmp_path, command, TRAINED="de es fr ru")
    facts = [
        [value(call, name) for name in ("--lang-pairs", "--save-dir", "--stop-time-hours", "--lr")] for call in calls
    ]
    assert facts == [[f"{one}-en", f"{tmp_path}/run/{one}", "0.250000", "0.1"] for one in ("de", "fr", "ru")]
    assert calls_of(tmp_path, command, TRAINED="de es") == [], "the others are finished too"
    for name in ("de", "fr"):
        (tmp_path / "run" / name / "done").unlink()
    (tmp_path / "fairseq-train").write_text("#!/bin/sh\ncase $* in *de-en*) exit 3;; esac\n", encoding="utf-8")
    done = bash(f"bash examples/sga/{command}", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", TRAINED="de fr")
    assert done.returncode != 0 and not (tmp_path / "run" / "fr" / "done").exists(), "a failed one ends it"


def test_pairs_are_mixed_into_one(tmp_path: Path) -> None:
    """Line by line: each source beside its translation."""
    pieces = tmp_path / "bin" / "pieces"
    pieces.mkdir(parents=True)
    for split in ("train", "valid"):
        for language in ("de", "en", "fr", "ru"):
            lines = [f"{split} {language} {line}\n" for line in range(3)]
            (pieces / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    (call,) = calls_of(tmp_path, f"prepare_mixed.sh {tmp_path}", TRAINED="de fr")
    assert value(call, "--source-lang") == "x" and value(call, "--srcdict") == f"{tmp_path}/dict.txt"
    for split in ("train", "valid"):
        text = value(call, f"--{split}pref")
        both = zip(*(Path(f"{text}.{one}").read_text(encoding="utf-8").splitlines() for one in ("x", "en")))
        expected = [(f"{split} {one} {line}", f"{split} en {line}") for one in ("de", "fr") for line in range(3)]
        assert list(both) == expected
    (call,) = calls_of(tmp_path, f"train_msp.sh {tmp_path} run 1 7", PAIR="x-en", BIN=f"{tmp_path}/mixed")
    assert call[1] == f"{tmp_path}/mixed" and value(call, "--source-lang") == "x"
    assert value(call, "--pretrained-gpt") == f"{tmp_path}/lm/checkpoint_best.pt"


def test_the_wall_time_of_adapters_is_split(tmp_path: Path) -> None:
    """Half each; a given backbone leaves all of it to the adapters, and adapters that have begun keep their backbone."""
    command = f"train_adapter.sh {tmp_path} run 0.5 7 --cpu --lr 0.1"
    first, second = calls_of(tmp_path, command, BACKBONE_OPTIONS="--dropout 0.3")
    assert [value(call, "--stop-time-hours") for call in (first, second)] == ["0.250000", "0.250000"]
    assert value(first, "--arch") == "transformer" and value(first, "--save-dir") == f"{tmp_path}/run/backbone"
    assert value(first, "--dropout") == "0.3" and "--cpu" in first and value(first, "--lr") != "0.1"
    assert value(second, "--adapter-backbone") == f"{tmp_path}/run/backbone/checkpoint_best.pt"
    assert value(second, "--lr") == "0.1" and value(second, "--dropout") != "0.3" and value(second, "--seed") == "7"
    (given,) = calls_of(tmp_path, command, BACKBONE="other.pt")
    assert value(given, "--stop-time-hours") == "0.5" and value(given, "--adapter-backbone") == "other.pt"
    (tmp_path / "run" / "checkpoint_last.pt").write_text("", encoding="utf-8")
    (again,) = calls_of(tmp_path, command)
    assert value(again, "--stop-time-hours") == "0.250000"


def test_outputs_stay_with_the_run_and_are_scored_there(tmp_path: Path) -> None:
    """A run of a user does not overwrite the project's own."""
    (tmp_path / "run").mkdir()
    calls = calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0", PAIR="de-en")
    assert [call[1] for call in calls].count("examples/sga/record.py") == 0, "a run without a log, as one by hydra"
    (tmp_path / "run" / "train.log").touch()
    calls = calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0 --lenpen 7", PAIR="de-en")
    assert value(calls[0], "--best") == "5" and value(calls[1], "--lenpen") == "7"
    assert "--truncate-source" not in calls[1]
    assert value(calls[2], "--input") == f"{tmp_path}/run/generate-with-options-0.log", "not a log of the run's facts"
    assert value(calls_of(tmp_path, f"evaluate.sh {tmp_path} run 0", BEST="1")[0], "--best") == "1"
    written = [value(call, "--output") for call in calls if "--output" in call]
    assert written == [f"{tmp_path}/run/{name}" for name in ("average.pt", "0.en", "run.json")]
    (call,) = calls_of(tmp_path, f"score.sh texts {tmp_path} run/0 other/beam", PAIR="de-en", SUBSET="test")
    assert [call[place + 1] for place, word in enumerate(call) if word == "--system"] == [
        f"run/0={tmp_path}/run/0.en",
        f"other/beam={tmp_path}/other/beam.en",
    ]
    assert value(call, "--reference") == "texts/test.en"


def test_a_smaller_validation_set(tmp_path: Path) -> None:
    """The text is a copy then, and DATA stays as it is."""
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "valid", "test_2016_flickr"):
        for language in ("en", "de", "fr"):
            (data / f"{split}.{language}").write_text("a\nb\nc\n", encoding="utf-8")
    environment = {**os.environ, "PYTHON": "true", "VALID_LINES": "2"}
    command = ["bash", "examples/sga/prepare.sh", str(data), str(tmp_path / "out")]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)  # nothing makes the data-bin
    lines = {
        path.name: path.read_text(encoding="utf-8").count("\n") for path in (tmp_path / "out" / "text").glob("*.?*")
    }
    assert lines == {
        f"{split}.{language}": 2 if split == "valid" else 3
        for split in ("train", "valid", "test_2016_flickr")
        for language in ("en", "de", "fr")
    }
    assert (data / "valid.de").read_text(encoding="utf-8").count("\n") == 3
