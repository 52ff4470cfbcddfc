"""Test BLEU of --eval-bleu: language tags, <mask> and <pad> are no words of the text."""

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

PAIR = {"source_lang": "en", "target_lang": "de", "eval_bleu_remove_bpe": None}
START = {"restore_file": "checkpoint_last.pt", "finetune_from_model": None}
VECO = veco.VECOTranslationConfig(**PAIR, **START, missing_language_tag="unk")
CSR = CodeSwitchingRestoreConfig(langs="en,de", **PAIR)
TASKS = {  # class, options, last symbol of a row, tags in the dictionary
    "stock": (TranslationTask, TranslationConfig(**PAIR), "</s>", ()),
    "csr": (CodeSwitchingRestoreTask, CSR, "[de]", ()),
    "veco": (veco.TranslationFromPretrainedVECOTask, VECO, "[de]", ("[en]", "[de]")),
    "sga": (SGATranslationTask, JoinedTranslationConfig(**PAIR), "</s>", ()),
}


@pytest.mark.parametrize("name", TASKS)
def test_only_words_are_counted(name):
    task_class, cfg, last, tags = TASKS[name]
    names = [*builders.piece_names(), "<mask>", *tags]
    task = task_class(cfg, builders.of_symbols(names), builders.of_symbols(names))
    symbols = task.tgt_dict
    end = [symbols.index(last)] if last == "</s>" else [builders.EOS, symbols.index(last)]
    output = [4, builders.MASK, 5, builders.PAD, symbols.unk(), 6, *end]
    reference = [4, 5, builders.MASK, 6, 7, *end, builders.PAD]
    generator = task.build_generator([] if name == "sga" else [mbart(symbols)], Namespace(beam=1))
    task.tokenizer = None
    task.inference_step = lambda *_, **__: [[{"tokens": torch.tensor(output)}]]
    sample = {"target": torch.tensor([reference])}
    bleu = task._inference_with_bleu(generator, sample, None)
    assert (bleu.sys_len, bleu.ref_len) == (4, 4)  # <unk> is a word
    assert task.tgt_dict is symbols


@pytest.mark.parametrize("name", ["stock", "sga"])
@pytest.mark.parametrize("texts", [[""], ["", "a b c d x y"], ["a b c d x y", ""]])
def test_bleu_is_logged_also_for_batches_without_output(name, texts):
    task_class, cfg, *_ = TASKS[name]
    symbols = builders.dictionary()
    task = task_class(dataclasses.replace(cfg, eval_bleu=True), symbols, symbols)
    log = making.reduced(task, [making.bleu_log(text) for text in texts])
    assert log["bleu"] == pytest.approx(making.bleu(*texts).score, abs=0.01)
    assert "bleu" not in making.reduced(task, [{}])
