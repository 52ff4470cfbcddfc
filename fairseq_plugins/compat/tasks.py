"""Stock tasks: mBART fine-tuning, denoising with permuted sentences, BLEU in validation, models filled from a checkpoint."""

import copy
from typing import Any, Set

from .patch import Patch, instead_of, is_patched, source_has

TEXT = "validation_text"


def _mbart_lacks_args() -> bool:
    from fairseq.tasks import LegacyFairseqTask
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    if hasattr(Task, "args") or issubclass(Task, LegacyFairseqTask):
        return False
    return source_has(Task, "self.args.") and not source_has(Task, "self.args =")


def _alias_args() -> None:
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    def args(self: Any) -> Any:
        """The task's configuration, under the name that this task still uses (a subclass may set another)."""
        return self.__dict__.get("args", self.cfg)

    def set_args(self: Any, value: Any) -> None:
        self.__dict__["args"] = value

    Task.args = property(args, set_args)


def _permute_sentences_is_int() -> bool:
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    config = TASK_DATACLASS_REGISTRY.get("denoising")  # absent in 0.12.2, where the option is a float
    return config is not None and config.__dataclass_fields__["permute_sentences"].type is int


def _retype_permute_sentences() -> None:
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from hydra.core.config_store import ConfigStore

    config = TASK_DATACLASS_REGISTRY["denoising"]
    # Subclasses share the field; omegaconf reads the annotation, fairseq's argument parser the field.
    config.__dataclass_fields__["permute_sentences"].type = float
    config.__annotations__["permute_sentences"] = float
    for name, registered in TASK_DATACLASS_REGISTRY.items():
        if issubclass(registered, config):
            node = registered()
            node._name = name
            ConfigStore.instance().store(name=name, group="task", node=node, provider="fairseq")


def _builds_alike() -> bool:
    from fairseq import models

    return not is_patched(models.build_model, "decoding_builds")


def _say_what_for() -> None:
    from fairseq import models

    stock = models.build_model

    @instead_of(stock, "decoding_builds")
    def build_model(cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
        task.from_checkpoint = from_checkpoint
        return stock(cfg, task, from_checkpoint)

    models.build_model = build_model


def _scores_symbols() -> bool:
    from fairseq.tasks.translation import TranslationTask as Task

    stock = Task._inference_with_bleu
    return not is_patched(stock, TEXT) and not source_has(stock, "extra_symbols_to_ignore")


def no_text(generator: Any, dictionary: Any) -> Set[int]:
    """Ids that are no part of a text: what fairseq-generate strips for this generator, padding and ``<mask>``.

    ``<unk>`` is part of it, also where it stands for a language's tag at the end of a row.
    """
    ids = set(getattr(generator, "symbols_to_strip_from_output", ())) | {dictionary.pad()}
    if "<mask>" in dictionary:
        ids.add(dictionary.index("<mask>"))
    return ids - {dictionary.unk()}


def _score_text() -> None:
    from fairseq.tasks.translation import TranslationTask as Task

    stock = Task._inference_with_bleu

    @instead_of(stock, TEXT)
    def _inference_with_bleu(self: Any, generator: Any, sample: Any, model: Any) -> Any:
        dictionary, ignored = self.tgt_dict, no_text(generator, self.tgt_dict)

        def string(tokens: Any, *args: Any, **kwargs: Any) -> str:
            if len(tokens) and int(tokens[-1]) == getattr(generator, "eos", None):
                tokens = tokens[:-1]
            return str(dictionary.string(tokens, *args, extra_symbols_to_ignore=ignored, **kwargs))

        texts = copy.copy(dictionary)
        texts.string = string
        self.tgt_dict = texts
        try:
            return stock(self, generator, sample, model)
        finally:
            self.tgt_dict = dictionary

    Task._inference_with_bleu = _inference_with_bleu


MBART_TASK = Patch(
    name="mbart_task",
    reason="translation_from_pretrained_bart reads self.args, which no longer exists: no command can use the task",
    upstream="facebookresearch/fairseq#3169, #4479",
    needed=_mbart_lacks_args,
    apply=_alias_args,
)
PERMUTE_SENTENCES = Patch(
    name="permute_sentences",
    reason="--permute-sentences of denoising, a share in [0, 1], is typed int: 0.5 is refused",
    upstream="facebookresearch/fairseq#4828",
    needed=_permute_sentences_is_int,
    apply=_retype_permute_sentences,
)
DECODING_BUILDS = Patch(
    name="decoding_builds",
    reason="a model is not told that it will be filled from a checkpoint, and opens the pretrained file of its training again",
    upstream="not reported",
    needed=_builds_alike,
    apply=_say_what_for,
)
VALIDATION_TEXT = Patch(
    name=TEXT,
    reason="--eval-bleu scores what fairseq-generate strips: mBART's [en] at the end of both sides (10 points), <mask>, <pad>",
    upstream="no report found",
    needed=_scores_symbols,
    apply=_score_text,
)
