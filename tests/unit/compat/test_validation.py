"""BLEU of --eval-bleu is BLEU of the text: language tags, <mask> and <pad> are no words of it."""

import dataclasses
from argparse import Namespace

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_plugins.csr.config import CodeSwitchingRestoreConfig
from fairseq_plugins.csr.task import CodeSwitchingRestoreTask
from fairseq_plugins.sga.tasks import SGATranslationTask
from fairseq_plugins.sga.variants import JoinedTranslationConfig
from fairseq_plugins.veco import translation as veco
from tests import builders
from tests.gpt_builders import mbart
from tests.unit.common import making

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LANGUAGES = {"source_lang": "en", "target_lang": "de", "eval_bleu_remove_bpe": None}
START = {"restore_file": "checkpoint_last.pt", "finetune_from_model": None, "missing_language_tag": "unk"}
VECO = veco.VECOTranslationConfig(**LANGUAGES, **START)
TASKS = {  # the class, its options, what ends a row, and the tags in the dictionary
    "stock": (TranslationTask, TranslationConfig(**LANGUAGES), "</s>", ()),
    "csr": (CodeSwitchingRestoreTask, CodeSwitchingRestoreConfig(langs="en,de", **LANGUAGES), "[de]", ()),
    "veco": (veco.TranslationFromPretrainedVECOTask, VECO, "[de]", ("[en]", "[de]")),
    "sga": (SGATranslationTask, JoinedTranslationConfig(**LANGUAGES), "</s>", ()),
}


@pytest.mark.parametrize("name", TASKS)
def test_only_words_are_counted(name):
    kind, cfg, last, tags = TASKS[name]
    symbols = [builders.dictionary() for _ in range(2)]
    for one in symbols:
        for tag in tags:
            one.add_symbol(tag)
    task = kind(cfg, *symbols)
    dictionary = task.tgt_dict
    end, unk = dictionary.index(last), dictionary.unk()
    rest = [] if last == "</s>" else [builders.EOS]
    output = [4, builders.MASK, 5, builders.PAD, unk, 6, *rest, end]
    target = [4, 5, builders.MASK, 6, 7, *rest, end, builders.PAD]
    generator = task.build_generator([] if name == "sga" else [mbart(dictionary)], Namespace(beam=1))
    task.tokenizer = None
    task.inference_step = lambda *_, **__: [[{"tokens": torch.tensor(output)}]]
    bleu = task._inference_with_bleu(generator, {"target": torch.tensor([target])}, None)
    assert (bleu.sys_len, bleu.ref_len) == (4, 4)  # <unk> is a word
    assert task.tgt_dict is dictionary


@pytest.mark.parametrize("name", ["stock", "sga"])
@pytest.mark.parametrize("batches", [[("",)], [("",), ("a b c d x y",)], [("a b c d x y",), ("",)], [()]])
def test_bleu_is_logged_even_when_nothing_was_produced(name, batches):
    kind, cfg, *_ = TASKS[name]
    task = kind(dataclasses.replace(cfg, eval_bleu=True), builders.dictionary(), builders.dictionary())
    found = making.reduced(task, [making.bleu_log(*texts) if texts else {} for texts in batches])
    texts = [text for batch in batches for text in batch]
    if texts:
        assert found["bleu"] == pytest.approx(making.bleu(*texts).score, abs=0.01)
    else:
        assert "bleu" not in found
