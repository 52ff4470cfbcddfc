"""The translation task of VECO: rows and tags in the authors' form, the dictionary map, and what is refused."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import build_model

from fairseq_plugins.veco import translation as own
from tests import builders, veco_builders

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TAGS = ("[en]", "[de]")


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "test"):
        builders.write_pair(path, split, "en", "de", seed=3, count=4)
    return path


def task(folder="", tags=TAGS, pieces=builders.PIECES, **options):
    # Interpolated by the commands.
    resolved = dict(dataset_impl="mmap", train_subset="train", required_seq_len_multiple=1)
    files = dict(restore_file="checkpoint_last.pt", finetune_from_model=None, continue_once=None, save_dir=str(folder))
    languages = dict(data=str(folder), source_lang="en", target_lang="de")
    cfg = own.VECOTranslationConfig(**languages, **resolved, **{**files, **options})
    symbols = veco_builders.dictionary(mask=True, tags=tags, pieces=pieces)
    return own.TranslationFromPretrainedVECOTask(cfg, symbols, symbols)


@pytest.mark.parametrize("split", ["train", "test"])
def test_rows_end_with_their_language(folder, split):
    task_of_pair = task(folder)
    task_of_pair.load_dataset(split)
    english, german = (task_of_pair.src_dict.index(tag) for tag in TAGS)
    assert english != german and builders.UNK not in (english, german)
    dataset = task_of_pair.dataset(split)
    assert len(dataset) == 4
    for number in range(4):
        item = dataset[number]
        assert item["source"][-2:].tolist() == [builders.EOS, english]
        assert item["target"][-2:].tolist() == [builders.EOS, german]
    batch = dataset.collater([dataset[number] for number in range(4)])
    shifted = batch["net_input"]["prev_output_tokens"]
    for row, target in zip(shifted, batch["target"]):
        length = int(target.ne(builders.PAD).sum())
        assert row[:length].tolist() == [german, *target[: length - 1].tolist()]


def test_truncated_rows_have_room_for_the_tag(folder):
    task_of_pair = task(folder, truncate_source=True, max_source_positions=4)
    task_of_pair.load_dataset("train")
    rows = [task_of_pair.dataset("train")[number]["source"] for number in range(4)]
    assert max(map(len, rows)) == 4 and {int(row[-1]) for row in rows} == {task_of_pair.source_tag}


def translator(task_of_pair):
    model = build_model(veco_builders.arguments(decoder_layers=1), task_of_pair).eval()
    veco_builders.soften(model, 4)
    return model


@torch.no_grad()
def test_references_are_scored_behind_the_tag(folder):
    task_of_pair = task(folder)
    task_of_pair.load_dataset("test")
    model, dataset = translator(task_of_pair), task_of_pair.dataset("test")
    scorer = task_of_pair.build_generator([model], Namespace(score_reference=True))
    batch = dataset.collater([dataset[0]])
    assert scorer.eos == task_of_pair.target_tag == task_of_pair.build_generator([model], Namespace(beam=2)).eos
    (hypothesis,) = task_of_pair.inference_step(scorer, [model], batch)[0]
    logits = model(**batch["net_input"])[0].log_softmax(dim=-1)
    expected = logits[0].gather(1, batch["target"][0][:, None])[:, 0]
    torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=0, atol=1e-5)


def test_a_missing_tag_is_refused_or_unk_where_that_is_asked_for(folder, caplog):
    words = r"--missing-language-tag error: .* no entry \[de\] for --target-lang de; valid:"
    with pytest.raises(ValueError, match=words):
        task(tags=("[en]",))
    with pytest.raises(ValueError, match="--missing-language-tag must be one of unk, error; got none"):
        task(missing_language_tag="none")
    task_of_pair = task(folder, tags=("[de]",), missing_language_tag="unk")
    assert "no entry [en] for --source-lang en" in caplog.text
    assert (task_of_pair.source_tag, task_of_pair.target_tag) == (builders.UNK, task_of_pair.tgt_dict.index("[de]"))
    task_of_pair.load_dataset("train")
    assert int(task_of_pair.dataset("train")[0]["source"][-1]) == builders.UNK


def write_map(folder, lines=("1", "0", "1")):
    path = folder / "map.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_maps_that_do_not_fit_are_refused(tmp_path):
    for lines, message in (
        (["1", "2"], r"map\.txt, line 2: '2'; valid: 1 = the entry stays"),
        (["0", "0"], r"keeps 0 entries, .* has 28 .*, 3 of them symbols added .*; valid: 25 to 28 lines"),
        (["1"] * 24, "keeps 24 entries"),
        (["1"] * 29, "keeps 29 entries, the data's dictionary has 28"),
    ):
        with pytest.raises(ValueError, match=f"--resized-dict-map .*{message}"):
            task(resized_dict_map=write_map(tmp_path, lines))
    with pytest.raises(ValueError, match="--resized-dict-map .*nowhere: cannot be read"):
        task(resized_dict_map=str(tmp_path / "nowhere"))
    added = {"pieces": 2, "missing_language_tag": "unk", "resized_dict_map": write_map(tmp_path)}
    assert task(**added, tags=("<sep>", "[zh-Hant]", "[en]", "madeupword0000")).kept_rows == (True, False, True)
    with pytest.raises(ValueError, match="keeps 2 .* 1 of them .*; valid: 5 to 6 lines"):
        task(**added, tags=("<sep>", "word", "[en]"))


def test_a_map_without_a_pretrained_file_is_refused(tmp_path):
    """Decoding and a run that goes on have a file; so have the three options that name one."""
    given = {"pieces": 2, "resized_dict_map": write_map(tmp_path), "save_dir": str(tmp_path / "run")}
    model = veco_builders.arguments(decoder_layers=1)
    with pytest.raises(ValueError, match=r"--resized-dict-map .*map\.txt: there are no pretrained rows to cut; valid"):
        task(**given).build_model(model)
    task(**given).build_model(model, from_checkpoint=True)
    for option in ("restore_file", "finetune_from_model", "continue_once"):
        task(**given, **{option: "model.pt"}).build_model(model)
    task(**given).build_model(veco_builders.arguments(decoder_layers=1, init_from_mlm=str(tmp_path / "gone")))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint_last.pt").touch()
    task(**given).build_model(model)


def test_the_kind_of_checkpoint_is_read_by_the_model(folder):
    model = veco_builders.arguments(decoder_layers=1)
    for kind in (None, "released", "pretraining", "run"):
        assert task(folder, veco_checkpoint_kind=kind).build_model(model).kind_option == kind
    with pytest.raises(ValueError, match="--veco-checkpoint-kind must be one of released, pretraining, run; got stack"):
        task(folder, veco_checkpoint_kind="stack")
