"""Stock mBART: its task runs, compares its languages with those of the checkpoint that it starts from, resumes or decodes, and
refuses a language without a tag; a generator's beam size reaches the cross-attention while it generates, and no longer."""

from typing import Any, Dict, List

from torch import nn

from ..checkpoints.starting import LANGUAGES, compare_order, compare_start
from .patch import Patch, source_has

KEPT = ("beam_size", "_beam_size", "reorder_encoder_out")  # what set_beam_size of stock models changes in their modules
TASK = "fairseq.tasks.translation_from_pretrained_bart:TranslationFromPretrainedBARTTask"

MBART_TASK = Patch(
    name="mbart_task",
    reason="translation_from_pretrained_bart reads self.args, which no longer exists: no command can use the task",
    upstream="facebookresearch/fairseq#3169, #4479",
)
MBART_LANGUAGES = Patch(
    name="mbart_languages",
    reason="translation_from_pretrained_bart takes any --langs: a language silently gets the id of another, or <unk>",
    upstream="not reported: the order is asked for in the help of --langs alone",
)
BEAM_SIZE = Patch(
    name="beam_size",
    reason="making a generator tells mBART its beam size for good: batches of training and validation are then read as copies for "
    "a beam (--eval-bleu), and a second generator with another beam size decodes with the first one's",
)


@MBART_TASK.probe
def _lacks_args() -> bool:
    from fairseq.tasks import LegacyFairseqTask
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    if hasattr(Task, "args") or issubclass(Task, LegacyFairseqTask):
        return False
    return source_has(Task, "self.args.") and not source_has(Task, "self.args =")


@MBART_TASK.step
def alias_args() -> None:
    """Give the task its configuration under the name that it still uses. A subclass may set another one."""
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    Task.args = property(
        lambda task: vars(task).get("args", task.cfg), lambda task, value: vars(task).update(args=value)
    )


@MBART_LANGUAGES.probe
def _compares_nothing() -> bool:
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    return not {"state_dict", "build_model"} & set(vars(Task))


@MBART_LANGUAGES.replace(f"{TASK}.build_model")
def build_model(stock: Any, task: Any, cfg: Any, from_checkpoint: bool = False) -> Any:
    """Refuse a language without a tag, which would silently be ``<unk>``, and another order than the pretrained model's."""
    for option, name in (("source", task.cfg.source_lang), ("target", task.cfg.target_lang)):
        if f"[{name}]" not in getattr(task, f"{option}_dictionary"):
            raise ValueError(
                f"--{option}-lang {name}: the dictionary has no [{name}], because --langs {','.join(task.langs)} lacks it; valid: "
                "the languages of the pretrained model, in its order"
            )
    if not from_checkpoint:
        compare_start(task.langs, task.cfg, "--langs")
    return stock(task, cfg, from_checkpoint)


@MBART_LANGUAGES.replace(f"{TASK}.state_dict")
def state_dict(stock: Any, task: Any) -> Dict[str, Any]:
    """Keep the languages in checkpoints."""
    return {**stock(task), LANGUAGES: {"langs": [str(language) for language in task.langs]}}


@MBART_LANGUAGES.replace(f"{TASK}.load_state_dict")
def load_state_dict(stock: Any, task: Any, state: Dict[str, Any]) -> None:
    """Compare the languages with those of a checkpoint that is about to be decoded."""
    others = dict(state)
    if LANGUAGES in others:
        compare_order(task.langs, others.pop(LANGUAGES)["langs"], "the checkpoint", "--langs")
    stock(task, others)


@BEAM_SIZE.probe
def _stays_set() -> bool:
    from fairseq.sequence_generator import EnsembleModel

    told: List[int] = []
    model: Any = nn.Module()
    model.set_beam_size = told.append
    EnsembleModel([model]).set_decoder_beam_size(2)  # all that a generator does when it is made
    return bool(told)


@BEAM_SIZE.replace("fairseq.sequence_generator:EnsembleModel.set_decoder_beam_size")
def set_decoder_beam_size(stock: Any, ensemble: Any, beam_size: int) -> None:
    """Nothing: models are told when something is generated. A generator that does not tell them expands what they read."""


@BEAM_SIZE.replace(
    "fairseq.sequence_generator:SequenceGenerator.generate",
    "fairseq.sequence_generator:SequenceGeneratorWithAlignment.generate",
)
def generate(stock: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the models read the encoder's output as copies for a beam, and put everything back after."""
    from fairseq.sequence_generator import EnsembleModel

    ensemble = generator.model
    before = [
        (module, {name: vars(module)[name] for name in KEPT if name in vars(module)}) for module in ensemble.modules()
    ]
    try:
        EnsembleModel.set_decoder_beam_size.__wrapped__(ensemble, generator.beam_size)  # does nothing for 1
        return stock(generator, *args, **kwargs)
    finally:
        for module, values in before:
            for name in KEPT:
                vars(module).pop(name, None)
            vars(module).update(values)
