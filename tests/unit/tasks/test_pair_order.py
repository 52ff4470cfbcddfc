"""Tasks read a pair from the files of either direction, as stock translation does."""

import pytest
from fairseq import options, tasks

from tests import builders

PAIR = ("-s", "en", "-t", "de")
SENTINELS = ("--add-sentinels", "171", "--mean-span", "1.5")
TASKS = {
    "translation": PAIR,
    "translation_from_pretrained_veco": (*PAIR, "--missing-language-tag", "unk"),
    "translation_mixing": (*PAIR, "--mix-monolingual", "de", *SENTINELS),
    "translation_multi_temperature": (
        "--lang-pairs",
        "en-de",
        "--max-source-positions=99",
        "--max-target-positions=99",
    ),
    "sga_translation": (*PAIR, "--criterion", "sga_ctc"),
    "sga_translation_multi": ("--lang-pairs", "en-de", "--criterion", "sga_ctc"),
    "span_corruption": ("--pairs", "en-de", "--monolingual", "de,en", *SENTINELS),
    "tlm_pretraining": ("--pairs", "en-de", "--monolingual", "de", "--criterion", "masked_lm"),
    "veco_pretraining": ("--pairs", "en-de", "--criterion", "cross_sequence_mlm"),
}


def items(folder, name):
    line = [str(folder), "--task", name, "--arch", "transformer", *TASKS[name]]
    args = options.parse_args_and_arch(options.get_training_parser(default_task=name), line)
    task = tasks.setup_task(args)
    task.load_dataset("train")
    dataset = task.dataset("train")
    assert len(dataset)
    return [str(dataset[index]) for index in range(len(dataset))]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", TASKS)
def test_either_direction_gives_the_same_items(tmp_path, name):
    pairs = {"en-de": tmp_path / "own", "de-en": tmp_path / "other"}
    for pair, folder in pairs.items():
        folder.mkdir()
        for seed, language in enumerate(("en", "de"), start=1):
            builders.write_side(folder, "train", pair, language, builders.sentences(12, seed, low=4))
            builders.write_dictionary(folder, language, builders.PIECES)
    own, other = (items(folder, name) for folder in pairs.values())
    assert own == other
