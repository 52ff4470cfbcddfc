"""Test the row of ``<mask>`` in a state of pre-training, and readers with other dictionaries."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import EMA

from fairseq_plugins.checkpoints import CheckpointError, average, read_checkpoint, read_masked_lm
from fairseq_plugins.checkpoints.encoders import read_encoder
from fairseq_plugins.checkpoints.export import export_checkpoint, import_checkpoint
from fairseq_plugins.sga.config import SIZE_OPTIONS
from fairseq_plugins.sga.state import read_pretrained
from tests import builders, deltalm_builders, nlu_builders, veco_builders
from tests.veco_builders import LAYERS, MASK, copy_state

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MASK_ROW = "lm_head.mask_row"
TAGS = ("[en]", "[de]")
BEFORE_TAGS = {"mask": True, "tags": TAGS}
"""A dictionary with ``<mask>`` in the masked LM's last row, and the languages after it."""

ROWS = MASK + 1 + len(TAGS)
WITHOUT_MASK = [row for row in range(ROWS) if row != MASK]
SOURCES = pytest.mark.parametrize("source", ["state", "masked LM"])


@pytest.fixture
def state():
    """A state of pre-training with the dictionary above."""
    return copy_state(veco_builders.random_pretrainer(symbols=BEFORE_TAGS))


def write(path, state):
    cfg = {"model": vars(veco_builders.arguments(no_scale_embedding=True)), "task": {"data": ""}}
    history = [{"num_updates": 3}]
    torch.save({"args": None, "cfg": cfg, "model": state, "optimizer_history": history}, path)
    return str(path)


def translator(source, state, path, policy="error", **symbols):
    """A model that starts from a state, which is restored or read as a masked LM."""
    options = {"keep_decoder_layers": "last:2", "embedding_mismatch": policy}
    if source == "masked LM":
        options["init_from_mlm"] = write(path / "pretrained.pt", state)
        return veco_builders.translator(symbols=symbols, **options)
    model = veco_builders.translator(symbols=symbols, no_scale_embedding=True, **options)
    model.load_state_dict(dict(state))
    return model


def assert_rows(model, state, rows):
    """The embeddings and the output projection begin with these rows of the state."""
    words = state["encoder.embed_tokens.weight"][rows]
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        assert torch.equal(model.state_dict()[f"{name}.weight"][: len(rows)], words), name


def test_the_state_keeps_the_row_when_it_is_averaged_halved_and_exported(tmp_path, state):
    model = veco_builders.random_pretrainer(symbols=BEFORE_TAGS)
    moving_average = EMA(model, EMAConfig(store_ema=True, ema_decay=0.5))
    moving_average.step(model)
    for part in (model, moving_average.model, model.half()):
        assert part.state_dict()[MASK_ROW].shape == (MASK, 0)
    files = [tmp_path / "first.pt", tmp_path / "second.pt"]
    for file in files:
        write(file, state)
    average.write_average(files, tmp_path / "average.pt")
    export_checkpoint(tmp_path / "average.pt", tmp_path / "export", dictionaries=False, half=True)
    import_checkpoint(tmp_path / "export", tmp_path / "import.pt")
    assert read_checkpoint(tmp_path / "import.pt")["model"][MASK_ROW].shape == (MASK, 0)
    masked_lm = read_masked_lm(tmp_path / "import.pt")
    assert masked_lm.mask_row == MASK
    assert MASK_ROW not in masked_lm.tensors and MASK_ROW in masked_lm.report.dropped


@pytest.mark.parametrize(
    "wrong",
    [torch.zeros(ROWS, 0), torch.zeros(0, 0), torch.tensor(3), torch.zeros(3, 1), None],
    ids=["out of range", "no row", "scalar", "with values", "missing"],
)
def test_a_tensor_that_states_no_row_is_refused(tmp_path, state, wrong):
    state[MASK_ROW] = wrong
    if wrong is None:
        del state[MASK_ROW]
    with pytest.raises(CheckpointError, match=rf"lm_head.mask_row is .* {ROWS} rows"):
        read_masked_lm(write(tmp_path / "x.pt", state))
    with pytest.raises(ValueError, match="lm_head.mask_row is"):
        translator("state", state, tmp_path, **BEFORE_TAGS)


def test_pretraining_continues_with_its_own_dictionary_only(state):
    model = veco_builders.pretrainer(symbols=BEFORE_TAGS)
    model.load_state_dict(dict(state))
    assert len(model.lm_head.mask_row) == MASK
    assert torch.equal(model.lm_head.bias, state["lm_head.bias"])
    symbols = {"pieces": builders.PIECES + 2}  # as many entries
    model = veco_builders.pretrainer(symbols=symbols)
    with pytest.raises(ValueError, match="<mask> in row 29, .* entry 31"):
        model.load_state_dict(state)


@SOURCES
def test_the_row_is_left_out_if_the_dictionary_lacks_mask(source, tmp_path, state, caplog):
    """The languages after it keep their own rows."""
    caplog.set_level("INFO")
    model = translator(source, state, tmp_path, mask=False, tags=TAGS)
    assert_rows(model, state, WITHOUT_MASK)
    assert "encoder.embed_tokens.weight: without row 29, <mask>" in caplog.text
    shorter = translator(source, state, tmp_path, policy="truncate", mask=False)
    assert_rows(shorter, state, range(MASK))
    longer = translator(source, state, tmp_path, policy="extend", mask=False, tags=(*TAGS, "[fr]"))
    assert_rows(longer, state, WITHOUT_MASK)


@SOURCES
def test_mask_elsewhere_is_refused(source, tmp_path, state):
    with pytest.raises(ValueError, match="<mask> is entry 31 .* row 29 .*--srcdict"):
        translator(source, state, tmp_path, mask=True, pieces=builders.PIECES + 2)


def test_sga_refuses_a_masked_lm_whose_mask_is_not_last(tmp_path, state):
    sizes = dict.fromkeys(SIZE_OPTIONS.values())
    cfg = SimpleNamespace(pretrained_mlm=write(tmp_path / "pretrained.pt", state), **sizes)
    with pytest.raises(ValueError, match=r"<mask> have ids \(0, 1, 2, 3, 31\) .*2, 3, 29\)"):
        read_pretrained(cfg, builders.dictionary(27))


@pytest.mark.parametrize(
    ("arch", "option"),
    [("deltalm_tiny", "init_from_mlm"), ("transformer_from_xlmr_tiny", "pretrained_xlmr")],
)
def test_other_models_leave_the_row_out(tmp_path, state, arch, option):
    path = write(tmp_path / "pretrained.pt", state)
    args = deltalm_builders.arguments(arch=arch, **{option: path})
    symbols = veco_builders.dictionary(tags=TAGS)
    model = models.build_model(args, builders.task_of(symbols))
    assert_rows(model, state, WITHOUT_MASK)


def test_a_dictionary_beside_the_masked_lm_must_agree(tmp_path, state):
    pieces, file = builders.piece_names(), tmp_path / "dict.txt"
    builders.write_symbols(file, [*pieces, "<mask>", *TAGS])
    model = translator("masked LM", state, tmp_path, **BEFORE_TAGS)
    assert_rows(model, state, range(ROWS))
    for entries, message in (
        ([*pieces, *TAGS, "<mask>"], r"where dict.txt has '\[en\]'"),
        (["<mask>"], "dict.txt as entry 4"),
    ):
        builders.write_symbols(file, entries)
        with pytest.raises(ValueError, match=f"has <mask> in row 29, {message}"):
            translator("masked LM", state, tmp_path, **BEFORE_TAGS)


def test_nlu_encoder_needs_mask_in_the_stated_row(tmp_path, state):
    """A task that adds <mask> at the end would shift each language by a row."""
    path, pieces = write(tmp_path / "pretrained.pt", state), builders.piece_names()
    symbols, shifted = [*pieces, "<mask>", *TAGS], [*pieces, *TAGS, "<mask>"]
    encoder = read_encoder(path)
    assert encoder.mask_row == MASK and encoder.report.reasons[MASK_ROW]
    model = nlu_builders.from_file(path, symbols, unnamed_rows="dictionary")
    assert torch.equal(model.encoder.embed_tokens.weight, state["encoder.embed_tokens.weight"])
    with pytest.raises(ValueError, match="<mask> is entry 31 .*, but row 29 of"):
        nlu_builders.from_file(path, shifted, unnamed_rows="dictionary")
    builders.write_symbols(tmp_path / "dict.txt", symbols)
    assert read_encoder(path).entries[MASK] == "<mask>"
    builders.write_symbols(tmp_path / "dict.txt", shifted)
    with pytest.raises(ValueError, match=r"<mask> in row 29, .*dict\.txt has '\[en\]'"):
        read_encoder(path)


KEPT_ROWS = [number >= builders.PIECES or number % 2 == 0 for number in range(ROWS - 4)]
"""A map that lists tags and <mask>, and leaves out every second piece."""


@SOURCES
def test_a_map_keeps_the_row_where_the_dictionary_has_mask(source, tmp_path, state):
    rows = [*range(4), *(4 + number for number, is_kept in enumerate(KEPT_ROWS) if is_kept)]
    symbols = {"pieces": 13, "kept_rows": KEPT_ROWS, **BEFORE_TAGS}
    assert_rows(translator(source, state, tmp_path, **symbols), state, rows)
    for changes, message in (
        ({"mask": False, "tags": ("[fr]", *TAGS)}, "row 17, .* has no <mask>"),
        ({"pieces": 14}, "row 17, .* entry 18"),
        # One line less than entries: the last row is no <mask> that the map would not list.
        ({"kept_rows": KEPT_ROWS[:-1], "mask": False}, r"27 lines.*28 lines, .*<mask> \(row 29\)"),
    ):
        with pytest.raises(ValueError, match=message):
            translator(source, state, tmp_path, "extend", **{**symbols, **changes})


@pytest.mark.parametrize(
    ("layers", "symbols"), [(2, {"tags": ("[en]",)}), (LAYERS, {"pieces": builders.PIECES + 1})]
)
def test_a_new_entry_does_not_get_the_row_of_mask(layers, symbols):
    """The last row of a released model is <mask>'s; a longer dictionary has as many entries."""
    released = veco_builders.stock_state()
    options = {"symbols": symbols, "keep_decoder_layers": f"last:{layers}"}
    with pytest.raises(ValueError, match="30 entries, .* 29 rows, .* valid here: extend"):
        veco_builders.translator(**options).load_state_dict(dict(released))
    model = veco_builders.translator(**options, embedding_mismatch="extend")
    before = model.encoder.embed_tokens.weight.detach().clone()
    model.load_state_dict(dict(released))
    assert_rows(model, released, range(MASK))
    assert torch.equal(model.encoder.embed_tokens.weight[-1], before[-1])
