"""Test encoder-decoders with two dictionaries that start from a masked LM, with rows by name."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import models

from tests import builders, deltalm_builders, veco_builders

TARGET = ["p7", "p2", "p20", "p11"]
ROWS = [0, 1, 2, 3, 11, 6, 24, 15]
BUILDERS = {"deltalm": deltalm_builders, "veco": veco_builders}


@pytest.fixture(scope="module")
def mlm(path):
    return path, deltalm_builders.write_mlm(path)["embed_tokens.weight"]


def build(kind, folder, source, target, **options):
    separate = {"share_all_embeddings": False, "share_decoder_input_output_embed": True}
    args = BUILDERS[kind].arguments(init_from_mlm=str(folder), **separate, **options)
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    return models.build_model(args, task)


@pytest.mark.parametrize("with_mask", [True, False])
@pytest.mark.parametrize("kind", BUILDERS)
def test_the_decoder_takes_the_rows_of_its_entries(mlm, kind, with_mask, caplog):
    caplog.set_level("INFO")
    mask = ["<mask>"] * with_mask
    source, target = (
        builders.of_symbols([*builders.piece_names(), *mask]),
        builders.of_symbols([*TARGET, *mask]),
    )
    model = build(kind, mlm[0], source, target)
    assert torch.equal(model.encoder.embed_tokens.weight, mlm[1][: len(source)])
    expected = mlm[1][[*ROWS, *[builders.MASK] * with_mask]]
    assert torch.equal(model.decoder.embed_tokens.weight, expected)
    assert torch.equal(model.decoder.output_projection.weight, expected)
    assert (
        f"decoder.embed_tokens.weight: the rows of the target's {len(target)} entries"
        in caplog.text
    )


@pytest.mark.parametrize("kind", BUILDERS)
def test_an_entry_that_the_source_lacks_is_refused(mlm, kind):
    target = builders.of_symbols(["p7", "elsewhere"])
    with pytest.raises(
        ValueError,
        match="the target's dictionary: the source's dictionary lacks its entry 'elsewhere'",
    ):
        build(kind, mlm[0], builders.dictionary(), target)


def test_new_symbols_after_the_sources_stay_random(mlm):
    source, target = (
        builders.dictionary(),
        builders.of_symbols([*builders.dictionary().symbols[4:], "new"]),
    )
    model = build("deltalm", mlm[0], source, target, embedding_mismatch="extend")
    assert torch.equal(model.decoder.embed_tokens.weight[:-1], mlm[1])
