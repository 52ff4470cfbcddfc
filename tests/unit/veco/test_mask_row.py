"""Which row is that of ``<mask>``: kept in the state of a pre-training, and what readers with other dictionaries do with it."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import EMA

from fairseq_plugins.checkpoints import CheckpointError, average, read_checkpoint, read_masked_lm
from fairseq_plugins.checkpoints.export import export_checkpoint, import_checkpoint
from fairseq_plugins.sga.config import SIZE_OPTIONS
from fairseq_plugins.sga.state import read_pretrained
from tests import builders, deltalm_builders, veco_builders
from tests.veco_builders import LAYERS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MARK = "lm_head.mask_row"
TAGS = ("[en]", "[de]")
ONE_TAG = {"tags": TAGS[:1]}
BEFORE_TAGS = {"mask": True, "tags": TAGS}
"""The dictionary of the set ``documents``: ``<mask>`` has the masked LM's last row, the languages come after it."""

WORDS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
ROWS = builders.MASK + 1 + len(TAGS)


def pretrained(**symbols):
    model = veco_builders.random_pretrainer(symbols=symbols or BEFORE_TAGS)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def write(path, state):
    cfg = {"model": vars(veco_builders.arguments(no_scale_embedding=True)), "task": {"data": ""}}
    torch.save({"args": None, "cfg": cfg, "model": state, "optimizer_history": [{"num_updates": 3}]}, path)
    return str(path)


def translator(source, state, path, policy="error", **symbols):
    """A model that starts from a state, which is restored or read as a masked LM."""
    options = dict(symbols=symbols, keep_decoder_layers="last:2", embedding_mismatch=policy)
    if source == "masked LM":
        return veco_builders.translator(init_from_mlm=write(path / "pretrained.pt", state), **options)
    model = veco_builders.translator(no_scale_embedding=True, **options)
    model.load_state_dict(dict(state))
    return model


def assert_rows(model, state, rows):
    """The first rows of the embeddings and of the output projection are these of the state."""
    for name in WORDS:
        assert torch.equal(model.state_dict()[name][: len(rows)], state[WORDS[0]][rows]), name


def test_the_state_of_a_pretraining_tells_it_whatever_becomes_of_its_numbers(tmp_path):
    model = veco_builders.random_pretrainer(symbols=BEFORE_TAGS)
    shape = (builders.MASK, 0)
    assert model.state_dict()[MARK].shape == shape
    moving = EMA(model, EMAConfig(store_ema=True, ema_decay=0.5))
    moving.step(model)
    assert moving.model.state_dict()[MARK].shape == shape
    assert model.half().state_dict()[MARK].shape == shape
    files = [tmp_path / f"{number}.pt" for number in range(2)]
    for file in files:
        write(file, pretrained())
    average.write_average(files, tmp_path / "average.pt")
    export_checkpoint(tmp_path / "average.pt", tmp_path / "out", dictionaries=False, half=True)
    import_checkpoint(tmp_path / "out", tmp_path / "back.pt")
    assert read_checkpoint(tmp_path / "back.pt")["model"][MARK].shape == shape
    masked_lm = read_masked_lm(tmp_path / "back.pt")
    assert masked_lm.mask_row == builders.MASK
    assert MARK not in masked_lm.tensors and MARK in masked_lm.report.dropped


@pytest.mark.parametrize("wrong", [torch.zeros(ROWS, 0), torch.zeros(0, 0), torch.tensor(3), torch.zeros(3, 1), None])
def test_a_place_that_is_none_is_refused(tmp_path, wrong):
    state = {name: tensor for name, tensor in {**pretrained(), MARK: wrong}.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=rf"lm_head.mask_row is .*, expected \(row of <mask>, 0\) .* {ROWS} rows"):
        read_masked_lm(write(tmp_path / "x.pt", state))
    with pytest.raises(ValueError, match="lm_head.mask_row is"):
        translator("state", state, tmp_path, **BEFORE_TAGS)


def test_pretraining_goes_on_with_its_own_dictionary():
    state = pretrained()
    model = veco_builders.pretrainer(symbols=BEFORE_TAGS)
    model.load_state_dict(dict(state))
    assert len(model.lm_head.mask_row) == builders.MASK and torch.equal(model.lm_head.bias, state["lm_head.bias"])
    longer_model = veco_builders.pretrainer(symbols={"pieces": builders.PIECES + 2})  # as many entries
    with pytest.raises(ValueError, match=r"has <mask> in row 29, the data's dictionary as entry 31"):
        longer_model.load_state_dict(state)


@pytest.mark.parametrize("source", ["state", "masked LM"])
def test_that_row_is_left_out_where_the_dictionary_lacks_it(source, tmp_path, caplog):
    """And the languages behind it keep their own rows."""
    caplog.set_level("INFO")
    state = pretrained()
    model = translator(source, state, tmp_path, mask=False, tags=TAGS)
    assert_rows(model, state, [row for row in range(ROWS) if row != builders.MASK])
    assert "encoder.embed_tokens.weight: without row 29, <mask>, which the dictionary does not have" in caplog.text
    shorter = translator(source, state, tmp_path, policy="truncate", mask=False)
    assert_rows(shorter, state, list(range(builders.MASK)))
    longer = translator(source, state, tmp_path, policy="extend", mask=False, tags=(*TAGS, "[fr]"))
    assert_rows(longer, state, [row for row in range(ROWS) if row != builders.MASK])


@pytest.mark.parametrize("source", ["state", "masked LM"])
def test_mask_elsewhere_is_refused(source, tmp_path):
    with pytest.raises(ValueError, match="<mask> is entry 31 of the dictionary, but row 29 of .*--srcdict"):
        translator(source, pretrained(), tmp_path, mask=True, pieces=builders.PIECES + 2)


def test_a_reader_that_needs_it_last_says_so(tmp_path):
    """SGA, whose task adds it behind every dictionary."""
    path = write(tmp_path / "pretrained.pt", pretrained())
    sizes = dict.fromkeys(SIZE_OPTIONS.values())
    cfg, symbols = SimpleNamespace(pretrained_mlm=path, **sizes), builders.dictionary(27)
    with pytest.raises(ValueError, match=r"<mask> have ids \(0, 1, 2, 3, 31\) .* \(0, 1, 2, 3, 29\)"):
        read_pretrained(cfg, symbols)
    assert read_masked_lm(write(tmp_path / "last.pt", pretrained(mask=True))).mask_row == builders.MASK


@pytest.mark.parametrize(
    ("arch", "option"), [("deltalm_tiny", "init_from_mlm"), ("transformer_from_xlmr_tiny", "pretrained_xlmr")]
)
def test_other_models_leave_it_out_wherever_it_is(tmp_path, arch, option):
    state = pretrained()
    args = deltalm_builders.arguments(arch=arch, **{option: write(tmp_path / "pretrained.pt", state)})
    symbols = builders.of_symbols([*builders.piece_names(), *TAGS])
    model = models.build_model(args, builders.task_of(symbols))
    assert_rows(model, state, [row for row in range(ROWS) if row != builders.MASK])


def test_a_dictionary_beside_the_masked_lm_agrees_or_is_refused(tmp_path):
    pieces = [f"p{number}" for number in range(builders.PIECES)]
    state = pretrained()
    (tmp_path / "dict.txt").write_text("".join(f"{text} 1\n" for text in [*pieces, "<mask>", *TAGS]))
    assert_rows(translator("masked LM", state, tmp_path, **BEFORE_TAGS), state, list(range(ROWS)))
    for entries, words in (
        ([*pieces, *TAGS, "<mask>"], r", where dict.txt has '\[en\]'"),
        (["<mask>"], ", dict.txt as entry 4"),
    ):
        (tmp_path / "dict.txt").write_text("".join(f"{text} 1\n" for text in entries))
        with pytest.raises(ValueError, match=f"has <mask> in row 29{words}"):
            translator("masked LM", state, tmp_path, mask=True, tags=TAGS)


def kept():
    """A map of the whole dict.txt, tags and <mask> included, that leaves out every second piece."""
    return [number >= builders.PIECES or number % 2 == 0 for number in range(ROWS - 4)]


@pytest.mark.parametrize("source", ["state", "masked LM"])
def test_a_map_keeps_it_where_the_dictionary_has_it(source, tmp_path):
    state = pretrained()
    rows = [*range(4), *(4 + number for number, stays in enumerate(kept()) if stays)]
    symbols = {"pieces": 13, "kept_rows": kept()}
    assert_rows(translator(source, state, tmp_path, **symbols, **BEFORE_TAGS), state, rows)
    for wrong, message in (
        ({"mask": False, "tags": ("[fr]", *TAGS)}, "puts it in row 17, the data's dictionary has no <mask>"),
        ({"mask": True, "tags": TAGS, "pieces": 14}, "puts it in row 17, the data's dictionary has it as entry 18"),
        # One line less than entries: the last row is no <mask> that the map would not list.
        (
            {"kept_rows": kept()[:-1], "mask": False, "tags": TAGS},
            r"has 27 lines.*valid here: 28 lines, .*<mask> \(row 29\) among them",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            translator(source, state, tmp_path, "extend", **{**symbols, **wrong})


@pytest.mark.parametrize(("layers", "added"), [(2, ONE_TAG), (LAYERS, ONE_TAG), (2, {"pieces": 26})])
def test_a_tag_does_not_get_the_row_of_mask(layers, added):
    """A released model's last row is <mask>'s, also where a dictionary without it has as many entries."""
    released = veco_builders.stock_state()
    options = dict(symbols=added, keep_decoder_layers=f"last:{layers}")
    with pytest.raises(ValueError, match="has 30 entries, the state to load 29 rows, .* valid here: extend"):
        veco_builders.translator(**options).load_state_dict(dict(released))
    model = veco_builders.translator(**options, embedding_mismatch="extend")
    before = model.encoder.embed_tokens.weight.detach().clone()
    model.load_state_dict(dict(released))
    assert_rows(model, released, list(range(builders.MASK)))
    assert torch.equal(model.encoder.embed_tokens.weight[-1], before[-1])
