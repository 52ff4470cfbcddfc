"""Task ``sga_translation``: fairseq's translation task with XLM-R's input format and the SGA generator."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset, PrependTokenDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ..common.empty_rows import BinSide, refuse_empty
from ..common.options import option
from ..common.own_run import OwnRun, changed
from .decoding import DenoisingGenerator, refuse_unread_options
from .extensions.graph_decoding import SGADAGGenerator, graph_options
from .extensions.prefix_beam import IterationOptions, SGAGenerator, beam_options
from .extensions.reranking import ATReranker, rerank_options
from .free_decoding import SGAMaskPredictGenerator, mask_predict_options
from .slot_pairs import SlotPairs

logger = logging.getLogger(__name__)

PAIRS = "trained_pairs"  # in the state of the task, which checkpoints keep


@dataclass
class SGATranslationConfig(TranslationConfig):
    """fairseq's translation options; the source is padded on the right."""

    left_pad_source: bool = option(False, "not supported: XLM-R's input is padded on the right")
    mask_predict_iterations: Optional[int] = option(
        None, "decoding with --alignment mask_predict: iterations, at least 1 (4 when not given); a CTC model has 0"
    )
    length_beam: Optional[int] = option(
        None,
        "decoding with --alignment mask_predict: lengths tried for each sentence, the best by mean log-probability "
        "goes on (1 when not given)",
    )
    dag_decoding: Optional[str] = option(
        None,
        "decoding with --alignment dag: lookahead (when not given), greedy, or viterbi, which divides by the length to the "
        "power of --lenpen",
    )
    iter_decode_ctc_beam: int = option(
        0,
        "decoding: CTC prefix beam search in the last pass, this many prefixes; hypotheses (--nbest) then have the "
        "log-probability of the output. 0 = the best path, whatever --beam says",
    )
    iter_decode_ctc_candidates: Optional[int] = option(
        None,
        "decoding: tokens per slot that --iter-decode-ctc-beam looks at beside the blank, at least 1 (20 when not "
        "given); refused without a beam",
    )
    iter_decode_ctc_bonus: float = option(
        0.0,
        "decoding: nats that --iter-decode-ctc-beam adds to the score for each token; above 0 outputs are longer. Refused "
        "without a beam",
    )
    iter_decode_blank_penalty: float = option(
        0.0,
        "decoding by CTC: nats taken off the blank's logit in every pass; above 0 fewer blanks and longer outputs, below 0 "
        "shorter ones. Choose it by validation",
    )
    rerank_at: Optional[str] = option(
        None,
        "decoding: checkpoint of a stock autoregressive model that scores the hypotheses of --iter-decode-ctc-beam "
        "too; several joined by ':'",
    )
    rerank_at_weight: Optional[float] = option(
        None,
        "share of --rerank-at's log-probability in the score, in [0, 1] (0.5 when not given); the rest is that of CTC. "
        "Both are divided by the length to the power of --lenpen. Refused without --rerank-at",
    )
    pack_weights: bool = option(
        False,
        "decoding in float32 on the CPU: keep a second copy of the weights in the layout of the matrix product; faster "
        "for one sentence or few at a time, for twice the memory of the weights",
    )


@register_task("sga_translation", dataclass=SGATranslationConfig)
class SGATranslationTask(OwnRun, TranslationTask):
    """Translation for a frozen masked LM: one dictionary for both sides, ``<s>`` before the source, ``<mask>`` added.

    The data-bin is stock: ``fairseq-preprocess --srcdict dict.txt --tgtdict dict.txt`` with the masked LM's ``dict.txt``.
    """

    criterions = ("sga_ctc", "sga_dag", "sga_mask_predict")
    fills_slots = True
    """For models whose decoder fills slots, all at once."""
    from_checkpoint = False

    @classmethod
    def setup_task(cls, cfg: SGATranslationConfig, **kwargs: Any) -> "SGATranslationTask":
        """Read the dictionaries; ValueError for padding on the left, or two dictionaries that differ."""
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

    # ---- Data. ----

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Stock language pairs, with ``<s>`` before the source; ValueError for an empty source, in training also target."""
        # What --truncate-source leaves must have room for <s>.
        with changed(self.cfg, max_source_positions=self.cfg.max_source_positions - 1):
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split] = SlotPairs.of(self.datasets[split])
        self._refuse_empty(dataset, split, epoch)
        dataset.src = PrependTokenDataset(dataset.src, self.source_dictionary.bos())
        dataset.src_sizes = dataset.src_sizes + 1
        dataset.sizes = (
            dataset.src_sizes if dataset.tgt_sizes is None else np.stack([dataset.src_sizes, dataset.tgt_sizes], 1)
        )

    def _refuse_empty(self, dataset: LanguagePairDataset, split: str, epoch: int) -> None:
        """Raise ValueError for empty sources; for empty targets only in training: a reference may be empty."""
        folders = utils.split_paths(self.cfg.data)
        in_training = split == self.cfg.train_subset
        languages = (self.cfg.source_lang, self.cfg.target_lang)
        sides = [dataset.src]
        if in_training and not self.from_checkpoint and dataset.tgt is not None:
            sides.append(dataset.tgt)
        for side, language in zip(sides, languages):
            folder = folders[(epoch - 1) % len(folders) if in_training else 0]
            refuse_empty(side, BinSide(folder, split, languages, language, self.cfg.dataset_impl))

    def build_dataset_for_inference(
        self, src_tokens: List[Any], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Dataset of raw sentences, for ``fairseq-interactive`` and the hub interface."""
        bos = torch.tensor([self.source_dictionary.bos()])
        rows = [torch.cat([bos.to(tokens), tokens]) for tokens in src_tokens]
        dataset = super().build_dataset_for_inference(rows, [int(length) + 1 for length in src_lengths], constraints)
        dataset.left_pad_source = False
        return dataset

    # ---- Model, validation and decoding. ----

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model; ValueError for a checkpoint of one that does not fill slots.

        A training with ``--pack-weights`` is refused: fairseq's optimizers would leave the copies behind.
        """
        if self.cfg.pack_weights and not from_checkpoint:
            raise ValueError(
                "--pack-weights is for decoding, the weights must not change; leave the option out in training"
            )
        self.from_checkpoint = from_checkpoint
        model = super().build_model(cfg, from_checkpoint)
        if from_checkpoint and not hasattr(model, "slot_lengths"):
            raise ValueError(
                f"--task {self.cfg._name or 'sga_translation'} decodes SGA and nat_ctc alone, this checkpoint is a "
                f"{type(model).__name__}: give the task that it was trained with, as --task translation"
            )
        return model

    def build_generator(
        self, models: List[Any], args: Any, seq_gen_cls: Any = None, extra_gen_cls_kwargs: Any = None, **kwargs: Any
    ) -> DenoisingGenerator:
        """Make the generator from the decoding options; ValueError for one that has no meaning here.

        Options of this task may stand in ``args`` too, as in ``--eval-bleu-args``.
        """

        def given(name: str) -> Any:
            value = getattr(args, name, None)
            return getattr(self.cfg, name) if value is None else value

        cfg, dictionary = self.cfg, self.target_dictionary
        lenpen = getattr(args, "lenpen", 1.0)
        first: Any = models[0] if models else None
        graph = graph_options(first, given("dag_decoding"), lenpen)
        refuse_unread_options(args, models, reads_lenpen=bool(cfg.rerank_at) or graph is not None)
        options = IterationOptions(
            max_iter=getattr(args, "iter_decode_max_iter", 10),
            adaptive=not getattr(args, "iter_decode_force_max_iter", False),
            retain_history=getattr(args, "retain_iter_history", False),
            blank_penalty=given("iter_decode_blank_penalty"),
        )
        if cfg.pack_weights:
            pack_weights(models)
        mask_predict = mask_predict_options(first, given("mask_predict_iterations"), given("length_beam"))
        without_ctc = mask_predict is not None or graph is not None
        if without_ctc and cfg.rerank_at:
            raise ValueError(
                f"--rerank-at {cfg.rerank_at}: it chooses among n-best lists of CTC; this model was trained with --alignment "
                f"{first.alignment} and has none"
            )
        rerank = rerank_options(cfg.rerank_at, cfg.rerank_at_weight, lenpen)
        beam = beam_options(
            given("iter_decode_ctc_beam"),
            given("iter_decode_ctc_candidates"),
            getattr(args, "nbest", 1),
            rerank is not None,
            given("iter_decode_ctc_bonus"),
        )
        if without_ctc and options.blank_penalty and not (first.has_denoiser and options.max_iter):
            raise ValueError(
                f"--iter-decode-blank-penalty {options.blank_penalty}: this model was trained with --alignment {first.alignment}, "
                "without a denoising pass there is no blank; valid: 0"
            )
        if without_ctc and beam.size:
            raise ValueError(
                f"--iter-decode-ctc-beam {beam.size}: this model was trained with --alignment {first.alignment}; valid: 0"
            )
        if graph is not None:
            return SGADAGGenerator(dictionary, options, graph)
        if mask_predict is not None:
            return SGAMaskPredictGenerator(dictionary, options, mask_predict)
        reranker = None
        if rerank is not None:
            reranker = ATReranker.read(rerank, dictionary, (cfg.source_lang, cfg.target_lang), cfg.data)
        return SGAGenerator(dictionary, options, beam, reranker)

    # ---- The pairs that the prompts were trained on. ----

    def trained_pairs(self) -> List[str]:
        """The pairs of this command line, as in ``de-en``."""
        languages = (self.cfg.source_lang, self.cfg.target_lang)
        return [] if None in languages else ["-".join(languages)]

    def state_dict(self) -> Dict[str, Any]:
        return {**super().state_dict(), PAIRS: self.trained_pairs()}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Called with a checkpoint that is about to be decoded: a pair that its prompts never saw is logged.

        A target language that they never wrote raises ValueError.
        """
        trained, target = state_dict.get(PAIRS) or self.trained_pairs(), self.cfg.target_lang
        for pair in set(self.trained_pairs()) - set(trained):
            if not any(name.endswith(f"-{target}") for name in trained):
                raise ValueError(
                    f"--target-lang {target}: the prompts of this checkpoint were trained on {', '.join(trained)} alone, nothing "
                    "tells them to write another language (any source may be decoded); if it is the same language, give the data's "
                    "files the name that it had in training"
                )
            logger.info(
                f"zero-shot: {pair} is none of the pairs that the prompts were trained on: {', '.join(trained)}"
            )
        super().load_state_dict(state_dict)

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """What fairseq hands back to a resumed run, by the name of the class of its task: either SGA task may go on."""
        return dict.fromkeys(("SGATranslationTask", "SGATranslationMultiTask"), self.state_dict())

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        """Called when a run is resumed; ValueError when it was trained on other pairs."""
        check_same_pairs(self.trained_pairs(), state.get(PAIRS), "the checkpoint to continue")


def pack_weights(models: List[Any]) -> None:
    """What ``--pack-weights`` asks for; ValueError where it cannot be done."""
    for model in models:
        if not hasattr(model, "pack_weights"):
            raise ValueError(
                f"--pack-weights is for SGA models; this one is {type(model).__name__}; leave the option out"
            )
        try:
            copied = model.pack_weights()
        except ValueError as error:
            raise ValueError(f"--pack-weights: {error}; leave the option out") from None
        if copied:
            logger.info("packed weights for decoding: %d MB beside the plain ones", round(copied / 2**20))


def check_same_pairs(own: List[str], trained: Optional[List[str]], origin: str) -> None:
    """Raise ValueError where a command line and a checkpoint name other pairs, in any order; a checkpoint may not tell."""
    if trained and sorted(own) != sorted(trained):
        raise ValueError(
            f"{origin} has prompts trained on {', '.join(trained)}, this command line names {', '.join(own)}; name the same pairs "
            "(a new training may start from it with --finetune-from-model, and any source language may be decoded with "
            "--source-lang and --target-lang alone)"
        )
