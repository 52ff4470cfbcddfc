"""Test the singular values of one model: ‖σ‖ is the Frobenius norm of each matrix."""

import torch

from fairseq_plugins.checkpoints.encoders import read_encoder
from tests.conftest import ROOT
from tests.unit.analysis.commands import run

MODEL = ROOT / "examples" / "sga" / "masked_lm"


def test_each_matrix_has_its_frobenius_norm(tmp_path):
    content = run("singular-values", tmp_path / "values.json", MODEL)
    tensors = read_encoder(MODEL).tensors
    assert len(content["rows"]) == 4 * 6
    for row in content["rows"]:
        part = {"K": "self_attn.k_proj", "FC2": "fc2"}.get(row["matrix"])
        if part:
            matrix = tensors[f"layers.{row['layer'] - 1}.{part}.weight"]
            assert abs(row["first"] - float(torch.linalg.matrix_norm(matrix))) < 1e-3
