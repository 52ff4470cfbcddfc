"""BLEU of --eval-bleu is BLEU of the text: language tags, <mask> and <pad> are no words of it."""

from argparse import Namespace

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

from fairseq_plugins.tasks.code_switching_restore import CodeSwitchingRestoreConfig, CodeSwitchingRestoreTask
from fairseq_plugins.tasks.sga_translation import SGATranslationConfig, SGATranslationTask
from fairseq_plugins.tasks.translation_from_pretrained_veco import (
    TranslationFromPretrainedVECOTask,
    VECOTranslationConfig,
)
from tests import builders
from tests.gpt_builders import mbart

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TAGS = ("[en]", "[de]")
LANGUAGES = {"source_lang": "en", "target_lang": "de", "eval_bleu_remove_bpe": None}


def symbols(tags=()):
    result = builders.dictionary()
    for tag in tags:
        result.add_symbol(tag)
    return result


def pretrained_bart():
    return TranslationFromPretrainedBARTTask(
        Namespace(langs="en,de", **{**vars(TranslationConfig()), **LANGUAGES}), *[symbols()] * 2
    )


def restore():
    return CodeSwitchingRestoreTask(CodeSwitchingRestoreConfig(langs="en,de", **LANGUAGES), *[symbols()] * 2)


def veco(tags):
    more = {"restore_file": "checkpoint_last.pt", "finetune_from_model": None, "missing_language_tag": "unk"}
    return lambda: TranslationFromPretrainedVECOTask(VECOTranslationConfig(**LANGUAGES, **more), *[symbols(tags)] * 2)


TASKS = {  # and what ends a row
    "translation": (lambda: TranslationTask(TranslationConfig(**LANGUAGES), *[symbols()] * 2), "</s>"),
    "translation_from_pretrained_bart": (pretrained_bart, "[de]"),
    "code_switching_restore": (restore, "[de]"),
    "translation_from_pretrained_veco": (veco(TAGS), "[de]"),
    "translation_from_pretrained_veco, <unk> for the tag": (veco(()), "<unk>"),
    "sga_translation": (lambda: SGATranslationTask(SGATranslationConfig(**LANGUAGES), *[symbols()] * 2), "</s>"),
}


def lengths(task, output, target):
    """Words of hypothesis and reference that BLEU counts, with the task's own generator."""
    models = [] if isinstance(task, SGATranslationTask) else [mbart(task.tgt_dict)]
    generator = task.build_generator(models, Namespace(beam=1))
    task.tokenizer = None
    task.inference_step = lambda *_, **__: [[{"tokens": torch.tensor(output)}]]
    bleu = task._inference_with_bleu(generator, {"target": torch.tensor([target])}, None)
    return bleu.sys_len, bleu.ref_len


@pytest.mark.parametrize("name", TASKS)
def test_only_words_are_counted(name):
    make, last = TASKS[name]
    task = make()
    dictionary = task.tgt_dict
    end, unk = dictionary.index(last), dictionary.unk()
    rest = [] if last == "</s>" else [builders.EOS]
    output = [4, builders.MASK, 5, builders.PAD, unk, 6, *rest, end]
    target = [4, 5, builders.MASK, 6, 7, *rest, end, builders.PAD]
    assert lengths(task, output, target) == (4, 4)  # <unk> is a word
    assert task.tgt_dict is dictionary
