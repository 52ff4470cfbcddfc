"""Test task code_switching_restore: data, checks, logs, and the switch of stages in one run."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from fairseq import options as command_line
from fairseq.logging import metrics
from fairseq.tasks.translation import TranslationTask

from data_prep.pieces.segmenters import load_model
from fairseq_plugins.csr import lexicon
from fairseq_plugins.csr.restore import CodeSwitchingDataset
from tests import builders, csr_builders, nlu_bins, nlu_builders
from tests.csr_builders import Criterion, load, setup


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return csr_builders.write(tmp_path_factory.mktemp("csr"))


def spell(task, item, side):
    pieces = [task.src_dict[token] for token in item[side].tolist()[:-2]]
    return "".join(pieces).replace("▁", " ").strip()


def test_sentences_of_both_languages(corpus):
    task = setup(corpus)
    data, rows = load(task), csr_builders.texts(48, 1)
    assert isinstance(data, CodeSwitchingDataset) and len(data) == 96
    codes = [task.src_dict.index(f"[{language}]") for language in ("en", "de")]
    candidates = {"en": csr_builders.GERMAN, "de": csr_builders.ENGLISH}
    for index in range(96):
        language, item = ("en", "de")[index % 2], data[index]
        assert spell(task, item, "target") == rows[language][index // 2]
        ends = [item["source"][-1], item["target"][-1], item["prev_output_tokens"][0]]
        assert ends == [codes[index % 2]] * 3
        target, source = (spell(task, item, side) for side in ("target", "source"))
        old, new = (text.rstrip(").").replace("(", "").split() for text in (target, source))
        assert len(old) == len(new) == item["words"] == item["covered"]
        switched = [after for before, after in zip(old, new) if before != after]
        assert len(switched) == item["switched"]
        assert set(switched) <= {word.lower() for word in candidates[language]}


def test_monolingual_text_and_numbered_sets_are_read(corpus, tmp_path):
    folder, model = tmp_path / "bin", load_model(corpus.model)
    shutil.copytree(corpus.data, folder)
    csr_builders.write_pair(folder, "train1", csr_builders.texts(5, 77), model)
    assert len(load(setup(corpus, data=str(folder)))) == 96
    assert len(load(setup(corpus, data=str(folder)), combine=True)) == 106
    for kind in ("bin", "idx"):
        shutil.copy(folder / f"train1.en-de.de.{kind}", folder / f"train.de-None.de.{kind}")
    assert len(load(setup(corpus, data=str(folder)))) == 53, "48 of en, 5 of the monolingual de"
    with pytest.raises(ValueError, match="--restore-langs de: .*valid2.de-None.de.bin"):
        load(setup(corpus, restore_langs="de"), "valid2")


def test_shares_are_those_of_all_processes(corpus):
    task, criterion = setup(corpus), Criterion()
    model = SimpleNamespace(eval=lambda: None)
    data = load(task)
    batches = [data.collater(data.__getitems__(rows)) for rows in ([0, 1, 2], [3, 4])]
    logs = [task.valid_step(batch, model, criterion)[2] for batch in batches]
    assert set(logs[0]) == {"loss", "csr_words", "csr_covered", "csr_switched"}
    translation = task.valid_step({"net_input": {}}, model, criterion)[2]
    assert translation == dict.fromkeys(logs[0], 0)
    words, switched = (
        sum(batch["switching"][name] for batch in batches) for name in ("words", "switched")
    )
    summed = {name: torch.tensor(sum(log[name] for log in logs)) for name in logs[0]}
    for outputs in (logs, [summed]):
        with metrics.aggregate(new_root=True) as meters:
            task.reduce_metrics(outputs, criterion)
        shares = meters.get_smoothed_values()
        assert shares["switched"] == pytest.approx(switched / words, abs=1e-4)
        assert shares["coverage"] == 1.0


def test_a_lexicon_that_does_not_fit_is_refused(corpus, tmp_path):
    reversed_pairs = [" ".join(pair.split()[::-1]) for pair in csr_builders.WORDS[1:]]
    for words, message in (
        ([*reversed_pairs, "the the"], "opposite direction"),
        ([*reversed_pairs, "the the", "the ЖЖ"], "opposite direction"),
        (["chien Hund", "chat Katze"], "chien, chat: another language"),
        (["dog ЖЖ", "cat ЖЖЖ"], "all 4 candidates .* <unk>"),
    ):
        path = csr_builders.write_lexicon(tmp_path / "x", words)
        with pytest.raises(ValueError, match=message):
            load(setup(corpus, lexicon=f"en-de={path},de-en={corpus.lexicon}/de-en.tsv"))


def test_a_lexicon_into_another_language_is_refused(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(lexicon, "FEWEST_JUDGED", 20)
    load(setup(corpus))
    pairs = [f"{pair.split()[0]} {pair.split()[1][::-1]}" for pair in csr_builders.WORDS]
    foreign = csr_builders.write_lexicon(tmp_path / "foreign", pairs)
    back = f"de-en={corpus.lexicon}/de-en.tsv"
    with pytest.raises(ValueError, match="the text of de has a candidate for .* %"):
        load(setup(corpus, lexicon=f"en-de={foreign},{back}"))
    load(setup(corpus, lexicon=f"en-fr={foreign},{back}"))  # there is no text of fr to compare with
    load(setup(corpus, lexicon=f"en-de={foreign},{back}"), "valid")


def test_options_and_files_are_checked(corpus, tmp_path):
    folder = shutil.copytree(corpus.data, tmp_path / "bin")
    builders.write_dictionary(folder, "fr")
    broken = str(nlu_bins.write(tmp_path / "broken.model", "no model"))
    for options, message in (
        ({"langs": ""}, "--langs is needed"),
        ({"langs": "en,fr"}, "--target-lang de: --langs en,fr"),
        ({"langs": "de,fr"}, "--source-lang en: --langs de,fr"),
        ({"langs": "en,de,en"}, "--langs .* got en,de,en"),
        ({"restore_langs": "en,fr"}, "--restore-langs en,fr: --langs en,de"),
        ({"restore_langs": "en,en"}, "--restore-langs .* got en,en"),
        ({"sentencepiece_model": ""}, r"--sentencepiece-model \(empty\)"),
        ({"sentencepiece_model": broken}, "broken.model: is no sentencepiece model"),
        ({"langs": "en,de,fr", "restore_langs": "en,fr"}, "dict.fr.txt differs from"),
    ):
        with pytest.raises(ValueError, match=message):
            load(setup(corpus, **{"data": str(folder), **options}))


def test_languages_in_another_order_than_a_checkpoints_are_refused(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(TranslationTask, "build_model", lambda *unused: "built")
    path, model = tmp_path / "pretrained.pt", SimpleNamespace(state_dict=dict, options={})
    options = {"_name": "multilingual_denoising", "langs": "en,de", "add_lang_token": True}
    nlu_builders.stock_checkpoint(path, model, options)
    task = setup(corpus, finetune_from_model=str(path))
    swapped = setup(corpus, langs="de,en", finetune_from_model=str(path))
    assert task.build_model(None) == swapped.build_model(None, from_checkpoint=True) == "built"
    with pytest.raises(ValueError, match="--langs de,en: .*pretrained.pt .* en,de"):
        swapped.build_model(None)
    task.load_state_dict(task.state_dict())
    with pytest.raises(ValueError, match="--langs de,en: .* en,de"):
        swapped.load_state_dict(task.state_dict())


def test_the_moments_are_reset_at_the_switch_alone(corpus, caplog):
    """Both batches of update 3 reset them. A stage that does not fit its update warns once."""
    task = setup(corpus, restore_updates=3)
    parameter, cleared = torch.nn.Parameter(torch.ones(1)), []
    optimizer = SimpleNamespace(optimizer=torch.optim.Adam([parameter]), backward=lambda loss: None)
    model = SimpleNamespace(train=lambda: None, set_num_updates=lambda number: None)
    for update in (0, 2, 3, 3, 4, 2, 2):
        sample = {"switching": {"words": 1}} if update < 3 and len(cleared) < 5 else {}
        optimizer.optimizer.state[parameter]["step"] = 5
        task.train_step(sample, model, Criterion(), optimizer, update)
        cleared.append("step" not in optimizer.optimizer.state[parameter])
    assert cleared == [False, False, True, True, False, False, False]
    (warning,) = (message for message in caplog.messages if "--restore-updates 3" in message)
    assert "update 2 is translation" in warning


def test_the_authors_options_are_refused_with_the_name_of_ours(capsys):
    line = "data --task code_switching_restore --arch mbart_large --langs de,en".split()
    for option, ours in (
        ("--competence-step", "--restore-updates"),
        ("--span-length", "--switch-span"),
    ):
        parser = command_line.get_training_parser()
        with pytest.raises(SystemExit):
            command_line.parse_args_and_arch(parser, [*line, option, "-1"])
        message = capsys.readouterr().err.strip().splitlines()[-1]
        assert option in message and ours in message and "unrecognized" not in message
