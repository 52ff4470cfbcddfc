"""Test VECO's translation task: tags in the authors' form, the dictionary map, refusals."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import build_model

from fairseq_plugins.veco import translation
from tests import builders, veco_builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TAGS = ("[en]", "[de]")


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "test"):
        builders.write_pair(path, split, "en", "de", seed=3, count=4)
    return path


def make_task(folder="", tags=TAGS, pieces=builders.PIECES, **options):
    """A task; the options that the commands interpolate have their defaults."""
    cfg = translation.VECOTranslationConfig(
        **{
            "data": str(folder),
            "source_lang": "en",
            "target_lang": "de",
            "dataset_impl": "mmap",
            "train_subset": "train",
            "required_seq_len_multiple": 1,
            "restore_file": "checkpoint_last.pt",
            "finetune_from_model": None,
            "continue_once": None,
            "save_dir": str(folder),
            **options,
        }
    )
    symbols = veco_builders.dictionary(mask=True, tags=tags, pieces=pieces)
    return translation.TranslationFromPretrainedVECOTask(cfg, symbols, symbols)


@pytest.mark.parametrize("split", ["train", "test"])
def test_rows_end_with_their_language(folder, split):
    task = make_task(folder)
    task.load_dataset(split)
    dataset = task.dataset(split)
    english, german = (task.src_dict.index(tag) for tag in TAGS)
    assert english != german and builders.UNK not in (english, german)
    items = [dataset[number] for number in range(len(dataset))]
    assert len(items) == 4
    for item in items:
        assert item["source"][-2:].tolist() == [builders.EOS, english]
        assert item["target"][-2:].tolist() == [builders.EOS, german]
    batch = dataset.collater(items)
    for row, target in zip(batch["net_input"]["prev_output_tokens"], batch["target"]):
        length = int(target.ne(builders.PAD).sum())
        assert row[:length].tolist() == [german, *target[: length - 1].tolist()]


def test_truncated_rows_keep_their_language(folder):
    task = make_task(folder, truncate_source=True, max_source_positions=4)
    task.load_dataset("train")
    rows = [task.dataset("train")[number]["source"] for number in range(4)]
    assert max(map(len, rows)) == 4 and {int(row[-1]) for row in rows} == {task.source_tag}


@torch.no_grad()
def test_references_are_scored_and_outputs_ended_by_the_tag(folder):
    task = make_task(folder)
    task.load_dataset("test")
    dataset = task.dataset("test")
    model = build_model(veco_builders.arguments(decoder_layers=1), task).eval()
    veco_builders.soften(model, 4)
    scorer = task.build_generator([model], Namespace(score_reference=True))
    generator = task.build_generator([model], Namespace(beam=2))
    assert scorer.eos == generator.eos == task.target_tag
    batch = dataset.collater([dataset[0]])
    (hypothesis,) = task.inference_step(scorer, [model], batch)[0]
    log_probabilities = model(**batch["net_input"])[0].log_softmax(dim=-1)[0]
    expected = log_probabilities.gather(1, batch["target"][0][:, None])[:, 0]
    torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=0, atol=1e-5)


def test_a_missing_tag_is_refused_or_unk_by_option(folder, caplog):
    with pytest.raises(
        ValueError, match=r"--missing-language-tag error: .*\[de\] for --target-lang"
    ):
        make_task(tags=("[en]",))
    task = make_task(folder, tags=("[de]",), missing_language_tag="unk")
    assert "no entry [en] for --source-lang en" in caplog.text
    german = task.tgt_dict.index("[de]")
    assert (task.source_tag, task.target_tag) == (builders.UNK, german)
    task.load_dataset("train")
    assert int(task.dataset("train")[0]["source"][-1]) == builders.UNK


def test_unknown_choices_are_refused(folder):
    for option in ("missing_language_tag", "veco_checkpoint_kind"):
        flag = "--" + option.replace("_", "-")
        with pytest.raises(ValueError, match=f"{flag} must be one of .*; got none"):
            make_task(folder, **{option: "none"})


def test_the_model_gets_the_kind_of_checkpoint(folder):
    args = veco_builders.arguments(decoder_layers=1)
    for kind in (None, "run"):
        task = make_task(folder, veco_checkpoint_kind=kind)
        assert task.build_model(args).kind_option == kind


# ---- A dictionary map. ----


def write_map(folder, lines=("1", "0", "1")):
    path = folder / "map.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.mark.cases(
    "lines message",
    (["1", "2"], r"map\.txt, line 2: '2'"),
    (["0", "0"], r"keeps 0 entries, .* has 28 .*, 3 of them .*; valid: 25 to 28 lines"),
    (["1"] * 24, "keeps 24 entries"),
    (["1"] * 29, "keeps 29 entries, .* has 28"),
)
def test_maps_that_do_not_fit_are_refused(tmp_path, lines, message):
    with pytest.raises(ValueError, match=f"--resized-dict-map .*{message}"):
        make_task(resized_dict_map=write_map(tmp_path, lines))


def test_a_map_may_leave_out_symbols_that_were_added(tmp_path):
    options = {"pieces": 2, "missing_language_tag": "unk", "resized_dict_map": write_map(tmp_path)}
    task = make_task(**options, tags=("<sep>", "[zh-Hant]", "[en]", "madeupword0000"))
    assert task.kept_rows == (True, False, True)
    with pytest.raises(ValueError, match="keeps 2 .* 1 of them .*; valid: 5 to 6 lines"):
        make_task(**options, tags=("<sep>", "word", "[en]"))
    options["resized_dict_map"] = str(tmp_path / "missing")
    with pytest.raises(ValueError, match="--resized-dict-map .*missing: cannot be read"):
        make_task(**options)


def test_a_map_needs_a_pretrained_file(tmp_path):
    """A decoded model and a continued run have a file; three options name one."""
    run, file = tmp_path / "run", "model.pt"
    options = {"pieces": 2, "resized_dict_map": write_map(tmp_path), "save_dir": str(run)}
    args = veco_builders.arguments(decoder_layers=1)
    with pytest.raises(ValueError, match=r"--resized-dict-map .*map\.txt: .* no pretrained rows"):
        make_task(**options).build_model(args)
    make_task(**options).build_model(args, from_checkpoint=True)
    for option in ("restore_file", "finetune_from_model", "continue_once"):
        make_task(**options, **{option: file}).build_model(args)
    masked_lm = veco_builders.arguments(decoder_layers=1, init_from_mlm=str(tmp_path / "missing"))
    make_task(**options).build_model(masked_lm)
    run.mkdir()
    (run / "checkpoint_last.pt").touch()
    make_task(**options).build_model(args)
