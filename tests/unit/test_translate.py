"""Test that ``translate`` refuses wrong command lines and foreign files before it reads a model."""

import pytest
import torch

from fairseq_plugins import translate
from fairseq_plugins.__main__ import main


@pytest.mark.cases(
    "line message",
    ([], "MODEL comes first"),
    (["--cpu", "model.pt"], "MODEL comes first"),
    (["nowhere"], "MODEL nowhere: no such file"),
    (["nowhere", "--input", "no.txt"], "--input no.txt: no such file"),
)
def test_a_wrong_command_line_is_refused_in_one_line(line, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["translate", *line])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and message in error and error.count("\n") == 1


def test_a_file_of_another_program_is_refused(tmp_path):
    torch.save({"weights": torch.ones(2)}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"model.pt: .* \(KeyError: .*\); valid: "):
        translate.read_state(tmp_path / "model.pt")
