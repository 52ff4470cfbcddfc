"""What ``translate MODEL`` refuses before it reads a model."""

import pytest
import torch

from fairseq_plugins import translate
from fairseq_plugins.__main__ import main


def test_a_wrong_line_is_refused_in_one_line(capsys):
    for line, message in (
        ([], "MODEL comes first"),
        (["--cpu", "model.pt"], "MODEL comes first"),
        (["nowhere"], "MODEL nowhere: no such file"),
        (["nowhere", "--input", "no.txt"], "--input no.txt: no such file"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["translate", *line])
        shown = capsys.readouterr().err
        assert stopped.value.code == 2 and message in shown and shown.count("\n") == 1


def test_a_file_of_another_program_is_refused(tmp_path):
    torch.save({"weights": torch.ones(2)}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"model.pt: is no checkpoint of fairseq \(KeyError: .*\); valid: what"):
        translate.read_state(tmp_path / "model.pt")
