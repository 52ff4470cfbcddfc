"""Reranking of n-best lists by an autoregressive model (noisy parallel decoding)."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary, data_utils
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.nat import FairseqNATModel
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from ...common.options import Rule, in_range, option
from ..decoding import Hypotheses

logger = logging.getLogger(__name__)


@dataclass
class RerankingOptions:
    """Options of the task."""

    rerank_at: Optional[str] = option(
        None,
        "decoding: checkpoint of a stock autoregressive model that scores the hypotheses of "
        "--iter-decode-ctc-beam too; several joined by ':'",
    )
    rerank_at_weight: Optional[float] = option(
        None,
        "share of --rerank-at's log-probability in the score, in [0, 1] (0.5 when not given); the "
        "rest is that of CTC. Both are divided by the length to the power of --lenpen. Refused "
        "without --rerank-at",
    )


RERANKING_RULES = (
    Rule(
        lambda o: o.alignment != "ctc" and o.rerank_at,
        "--rerank-at {rerank_at}: it chooses among n-best lists of CTC; this model was trained "
        "with --alignment {alignment} and has none",
    ),
    in_range("rerank_at_weight", "[0, 1]"),
    Rule(
        lambda o: o.rerank_at_weight is not None and not o.rerank_at,
        "--rerank-at-weight {rerank_at_weight}: nothing is reranked without --rerank-at CHECKPOINT",
    ),
    Rule(
        lambda o: o.rerank_at and o.iter_decode_ctc_beam < 2,
        "--rerank-at chooses among outputs: needs --iter-decode-ctc-beam of at least 2; got "
        "{iter_decode_ctc_beam}",
    ),
)


class RerankOptions(NamedTuple):
    """Settings that combine the scores of two models."""

    path: str  # --rerank-at; several checkpoints joined by ":" for their mean probability
    weight: float = 0.5  # --rerank-at-weight, share of the autoregressive score, in [0, 1]
    length_penalty: float = 1.0  # --lenpen, exponent of the length that the sum is divided by


class Ensemble(NamedTuple):
    """Models of one training, as fairseq loads them."""

    models: List[Any]
    cfg: Any
    task: Any


class ATReranker:
    """Score each hypothesis by stock models, of one task, that write from left to right.

    Score: ``((1 - w) log p_CTC(y | x) + w log p_AT(y </s> | x)) / (|y| + 1) ^ length_penalty``.

    Source: Gu et al. 2018, "noisy parallel decoding", which has the model's score alone; SGA does
    not rerank.
    """

    def __init__(
        self,
        models: List[Any],
        task: Any,
        dictionary: Dictionary,
        options: RerankOptions,
        source_dictionary: Optional[Dictionary] = None,
    ):
        for model in models:
            if not isinstance(model, FairseqEncoderDecoderModel) or isinstance(
                model, FairseqNATModel
            ):
                raise ValueError(
                    f"--rerank-at {options.path}: {type(model).__name__} does not write from left "
                    "to right; valid: a stock encoder-decoder, as --arch transformer"
                )
        sources = source_dictionary or dictionary
        check_dictionary(options.path, sources, task.source_dictionary, "source")
        check_dictionary(options.path, dictionary, task.target_dictionary)
        self.models, self.task, self.options = models, task, options
        self.dictionary: Dictionary = task.target_dictionary
        self.bos = dictionary.bos()
        self.scorer = SequenceScorer(self.dictionary)

    @classmethod
    def read(
        cls,
        options: RerankOptions,
        dictionary: Dictionary,
        languages: Tuple[Optional[str], Optional[str]] = (None, None),
        data: Optional[str] = None,
        source_dictionary: Optional[Dictionary] = None,
    ) -> "ATReranker":
        """Read the models with fairseq's loader.

        Args:
            dictionary: of the hypotheses.
            languages: source and target that are decoded; a model trained on others is warned of,
                not refused: it may be on purpose.
            data: data-bin that is decoded; its dictionaries replace those of the training if these
                are gone.
            source_dictionary: of the sources; None = that of the hypotheses.

        Raises:
            ValueError: a file is missing, or the models do not fit.
        """
        paths = utils.split_paths(options.path)
        for path in paths:
            if not os.path.isfile(path):
                raise ValueError(
                    f"--rerank-at {path}: no such file; valid: a checkpoint of an autoregressive "
                    "model"
                )
        ensemble = load_autoregressive(paths, options.path, data)
        for side, language in zip(("source", "target"), languages):
            trained = getattr(ensemble.cfg.task, f"{side}_lang", None)
            if language and trained and trained != language:
                difference = (
                    f"that model was trained with --{side}-lang {trained}, it scores {language}"
                )
                logger.warning("--rerank-at %s: %s", options.path, difference)
        count = len(ensemble.models)
        logger.info("--rerank-at %s: %d model(s), weight %g", options.path, count, options.weight)
        return cls(ensemble.models, ensemble.task, dictionary, options, source_dictionary)

    @torch.no_grad()
    def rescore(self, sources: Tensor, sentences: Hypotheses) -> Hypotheses:
        """Order the hypotheses of each source by the ``score`` of both models, best first.

        They get ``at_score``, the sum of the log-probabilities of the tokens and ``</s>`` in nats,
        and ``positional_scores``, equal shares of the new ``score``.

        Args:
            sources: (B, S) int64, padded anywhere, with or without ``<s>``.
            sentences: hypotheses of each source; their ``score`` is CTC's with the bonus of the
                tokens.

        Raises:
            ValueError: a source or a hypothesis is longer than the model's positions.
        """
        pad = self.dictionary.pad()
        plain = [row[row.ne(pad) & row.ne(self.bos)] for row in sources.cpu()]
        for model in self.models:
            model.to(sources.device).eval()
        for rank in range(max(len(sentence) for sentence in sentences)):
            rows = [row for row, sentence in enumerate(sentences) if len(sentence) > rank]
            ranked = [sentences[row][rank] for row in rows]
            tokens = [hypothesis["tokens"] for hypothesis in ranked]
            scores = self._log_probs([plain[row] for row in rows], tokens, sources.device)
            for hypothesis, score in zip(ranked, scores):
                self._combine(hypothesis, score)
        return [
            sorted(sentence, key=lambda hypothesis: -float(hypothesis["score"]))
            for sentence in sentences
        ]

    def _combine(self, hypothesis: Dict[str, Any], at_score: Tensor) -> None:
        weight, tokens = self.options.weight, hypothesis["tokens"]
        length = 1 + int(tokens.ne(self.dictionary.eos()).sum())  # </s> counted
        ctc_score = hypothesis["score"]
        weighted_sum = (1.0 - weight) * ctc_score + weight * at_score.to(ctc_score)
        score = weighted_sum / length**self.options.length_penalty
        shares = (score / len(tokens)).repeat(len(tokens))
        hypothesis.update(at_score=at_score, score=score, positional_scores=shares)

    def _log_probs(
        self, sources: List[Tensor], hypotheses: List[Tensor], device: torch.device
    ) -> List[Tensor]:
        """Compute log p(y </s> | x) of one hypothesis per source, as a batch."""
        pad, eos, unk = self.dictionary.pad(), self.dictionary.eos(), self.dictionary.unk()
        targets = []
        for tokens in hypotheses:
            # The model's dictionary may lack <mask>.
            pieces = tokens.masked_fill(tokens >= len(self.dictionary), unk)
            targets.append(torch.cat([pieces[pieces.ne(eos)], pieces.new_tensor([eos])]))
        self._check_lengths(sources, targets)
        # The task knows how its sources look: padding, <s>, tags.
        lengths = [len(source) for source in sources]
        dataset = self.task.build_dataset_for_inference(sources, lengths)
        sample = dataset.collater([dataset[number] for number in range(len(sources))])
        order = sample["id"].tolist()
        rows = [targets[number] for number in order]
        sample["target"] = data_utils.collate_tokens(rows, pad, eos)
        sample["net_input"]["prev_output_tokens"] = data_utils.collate_tokens(
            rows, pad, eos, move_eos_to_beginning=True
        )
        sample = utils.apply_to_sample(lambda tensor: tensor.to(device), sample)
        sample["net_input"].pop("constraints", None)
        scored = self.scorer.generate(self.models, sample)
        sums = torch.stack([entry[0]["positional_scores"].sum() for entry in scored]).cpu()
        by_number = dict(zip(order, sums))
        return [by_number[number] for number in range(len(sources))]

    def _check_lengths(self, sources: List[Tensor], targets: List[Tensor]) -> None:
        limits = utils.resolve_max_positions(*(model.max_positions() for model in self.models))
        for side, rows, limit in zip(("source", "hypothesis"), (sources, targets), limits):
            longest = max(len(row) for row in rows)
            if longest > limit:
                raise ValueError(
                    f"--rerank-at {self.options.path}: a {side} of {longest} tokens is longer than "
                    f"that model's {limit} positions"
                )


def load_autoregressive(paths: List[str], option: str, data: Optional[str]) -> Ensemble:
    """Load the models, with the dictionaries of ``data`` if those of their training are gone."""
    try:
        return Ensemble(*checkpoint_utils.load_model_ensemble_and_task(paths))
    except FileNotFoundError as error:
        missing = error
    explanation = "its dictionaries are read from the data-bin that it was trained on"
    if data is None:
        raise ValueError(f"--rerank-at {option}: {missing}; {explanation}") from missing
    logger.warning(
        "--rerank-at %s: %s; the dictionaries of %s are taken, which must be the same",
        option,
        missing,
        data,
    )
    try:
        overrides = {"data": data}
        return Ensemble(*checkpoint_utils.load_model_ensemble_and_task(paths, overrides))
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"--rerank-at {option}: {missing}; {explanation}, and those of {data} do not fit: "
            f"{error}"
        ) from error


def check_dictionary(
    path: str, dictionary: Dictionary, model: Dictionary, side: str = "hypotheses"
) -> None:
    """Raise ValueError if the dictionaries of a side and of the model differ.

    ``<mask>``, which tasks of masked LMs add at the end, may be missing.

    Args:
        side: name of the side, for messages: ``hypotheses`` or ``source``.
    """
    remedy = "train it on a data-bin made with the same dict.txt"
    ours, theirs = _without_mask(dictionary.symbols), _without_mask(model.symbols)
    for index, (symbol, model_symbol) in enumerate(zip(ours, theirs)):
        if symbol != model_symbol:
            difference = f"has {model_symbol!r} as entry {index}, that of the {side} {symbol!r}"
            raise ValueError(f"--rerank-at {path}: its dictionary {difference}; {remedy}")
    if len(ours) != len(theirs):
        difference = f"has {len(theirs)} entries, that of the {side} {len(ours)}"
        raise ValueError(f"--rerank-at {path}: its dictionary {difference}; {remedy}")


def _without_mask(symbols: List[str]) -> List[str]:
    return symbols[:-1] if symbols[-1] == "<mask>" else symbols
