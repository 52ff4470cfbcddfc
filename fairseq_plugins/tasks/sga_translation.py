"""Task ``sga_translation``: fairseq's translation task with XLM-R's input format and the SGA generator."""

import logging
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, PrependTokenDataset
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation import EVAL_BLEU_ORDER, TranslationConfig, TranslationTask
from sacrebleu.metrics import BLEU

from ..generators.sga_generator import IterationOptions, SGAGenerator

logger = logging.getLogger(__name__)


@dataclass
class SGATranslationConfig(TranslationConfig):
    """fairseq's translation options; the source is padded on the right."""

    left_pad_source: bool = field(
        default=False, metadata={"help": "not supported: XLM-R's input is padded on the right"}
    )


@register_task("sga_translation", dataclass=SGATranslationConfig)
class SGATranslationTask(TranslationTask):
    """Translation for a frozen masked LM: one dictionary for both sides, ``<s>`` before the source, ``<mask>`` added.

    The data-bin is stock: ``fairseq-preprocess --srcdict dict.txt --tgtdict dict.txt`` with the masked LM's ``dict.txt``.
    """

    @classmethod
    def setup_task(cls, cfg: SGATranslationConfig, **kwargs: Any) -> "SGATranslationTask":
        """Read the dictionaries.

        Raises:
            ValueError: padding on the left, or source and target dictionaries that differ.
        """
        for name in ("left_pad_source", "left_pad_target"):
            if str(getattr(cfg, name)) == "True":
                raise ValueError(
                    f"--{name.replace('_', '-')} must be False: slots, positions and labels are counted from the left"
                )
        task = super().setup_task(cfg, **kwargs)
        if task.src_dict.symbols != task.tgt_dict.symbols:
            raise ValueError(
                f"dict.{cfg.source_lang}.txt and dict.{cfg.target_lang}.txt in {cfg.data} differ; SGA reads and writes with one "
                "masked LM: run fairseq-preprocess with its dict.txt as --srcdict and --tgtdict"
            )
        return task

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Read a dictionary and add ``<mask>`` as its last entry, as XLM-R has it."""
        dictionary = super().load_dictionary(filename)
        dictionary.add_symbol("<mask>")
        return dictionary

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Stock language pairs, with ``<s>`` before the source."""
        longest = self.cfg.max_source_positions
        self.cfg.max_source_positions = longest - 1  # what --truncate-source leaves must have room for <s>
        try:
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        finally:
            self.cfg.max_source_positions = longest
        dataset = self.datasets[split]
        dataset.src = PrependTokenDataset(dataset.src, self.source_dictionary.bos())
        dataset.src_sizes = dataset.src_sizes + 1
        dataset.sizes = (
            dataset.src_sizes if dataset.tgt_sizes is None else np.stack([dataset.src_sizes, dataset.tgt_sizes], 1)
        )

    def build_dataset_for_inference(
        self, src_tokens: List[Any], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Dataset of raw sentences, for ``fairseq-interactive`` and the hub interface."""
        bos = torch.tensor([self.source_dictionary.bos()])
        return LanguagePairDataset(
            [torch.cat([bos.to(tokens), tokens]) for tokens in src_tokens],
            [int(length) + 1 for length in src_lengths],
            self.source_dictionary,
            tgt_dict=self.target_dictionary,
            left_pad_source=False,
            constraints=constraints,
        )

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model; a checkpoint written with ``--save-full-model`` brings the frozen weights itself."""
        self.from_checkpoint = from_checkpoint
        return super().build_model(cfg, from_checkpoint)

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Stock metrics, and BLEU also where nothing was produced.

        A young CTC model emits blanks only. Stock then logs no BLEU, so that ``--best-checkpoint-metric bleu`` stops the training
        with a KeyError, and leaves the references of such a batch out of the brevity penalty.
        """
        validated = [log for log in logging_outputs if "_bleu_sys_len" in log]
        if validated and not any(log.get("_bleu_totals_0", 0) for log in validated):
            nothing = np.zeros(EVAL_BLEU_ORDER)
            lengths = [sum(int(log[f"_bleu_{name}"]) for log in validated) for name in ("sys_len", "ref_len")]
            for name, value in zip(("counts", "totals", "sys_len", "ref_len"), (nothing, nothing, *lengths)):
                metrics.log_scalar(f"_bleu_{name}", value)
            metrics.log_derived("bleu", _bleu)
        super().reduce_metrics(logging_outputs, criterion)

    def build_generator(
        self, models: List[Any], args: Any, seq_gen_cls: Any = None, extra_gen_cls_kwargs: Any = None, **kwargs: Any
    ) -> SGAGenerator:
        """Make the generator from fairseq's iterative-decoding options.

        Raises:
            ValueError: an option that has no meaning here.
        """
        if getattr(args, "iter_decode_with_beam", 1) != 1:
            raise ValueError(f"--iter-decode-with-beam must be 1 for CTC; got {args.iter_decode_with_beam}")
        if getattr(args, "iter_decode_eos_penalty", 0.0):
            raise ValueError("--iter-decode-eos-penalty has no meaning for CTC: slots end a sentence, not </s>")
        if getattr(args, "iter_decode_with_external_reranker", False):
            raise ValueError("--iter-decode-with-external-reranker is not supported by sga_translation")
        options = IterationOptions(
            max_iter=getattr(args, "iter_decode_max_iter", 10),
            adaptive=not getattr(args, "iter_decode_force_max_iter", False),
            retain_history=getattr(args, "retain_iter_history", False),
        )
        return SGAGenerator(self.target_dictionary, options)


def _bleu(meters: Any) -> float:
    """BLEU of the sums that validation has logged, 0 without a single token."""
    counts, totals, sys_len, ref_len = (
        meters[f"_bleu_{name}"].sum for name in ("counts", "totals", "sys_len", "ref_len")
    )
    score = BLEU.compute_bleu(counts.tolist(), totals.tolist(), int(sys_len), int(ref_len), smooth_method="exp").score
    return round(float(score), 2)
