"""Let stock mBART run, check the order of its languages, and reset its beam size after decoding."""

from typing import Any, Dict, List

from torch import nn

from ..checkpoints.starting import LANGUAGES, compare_order, compare_start
from .patch import Harm, Patch, source_has

TASK = "fairseq.tasks.translation_from_pretrained_bart:TranslationFromPretrainedBARTTask"
BEAM_ATTRIBUTES = ("beam_size", "_beam_size", "reorder_encoder_out")
"""Attributes of stock modules that ``set_beam_size`` changes."""

MBART_TASK = Patch(
    name="mbart_task",
    harm=Harm.PAPER_BLOCKED,
    defect="translation_from_pretrained_bart, on which CSR stands, reads self.args, which is gone",
    upstream="facebookresearch/fairseq#3169, #4479",
)
MBART_LANGUAGES = Patch(
    name="mbart_languages",
    harm=Harm.WRONG_RESULT,
    defect="translation_from_pretrained_bart takes any --langs: a language silently gets the id of "
    "another language, or that of <unk>",
    upstream="no report found; the help of --langs alone asks for the order",
)
BEAM_SIZE = Patch(
    name="beam_size",
    harm=Harm.WRONG_RESULT,
    defect="making a generator sets mBART's beam size for good: later training and validation "
    "batches are read as copies for a beam (--eval-bleu), and a second generator keeps it",
)


@MBART_TASK.probe
def _lacks_args() -> bool:
    """Return True if the task reads ``self.args``, which neither it nor a base class sets."""
    from fairseq.tasks import LegacyFairseqTask
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

    if hasattr(TranslationFromPretrainedBARTTask, "args"):
        return False
    if issubclass(TranslationFromPretrainedBARTTask, LegacyFairseqTask):
        return False
    reads_args = source_has(TranslationFromPretrainedBARTTask, "self.args.")
    return reads_args and not source_has(TranslationFromPretrainedBARTTask, "self.args =")


@MBART_TASK.step
def alias_args() -> None:
    """Let ``task.args`` of stock mBART be ``task.cfg``, unless a subclass sets it.

    fairseq moved the options of tasks from ``args`` to ``cfg``, and this task still reads ``args``.
    """
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

    def read(task: Any) -> Any:
        """Return the attribute that a subclass has set, else the configuration."""
        return vars(task).get("args", task.cfg)

    def write(task: Any, args: Any) -> None:
        """Set the attribute of this instance."""
        vars(task)["args"] = args

    TranslationFromPretrainedBARTTask.args = property(read, write)


@MBART_LANGUAGES.probe
def _compares_nothing() -> bool:
    """Return True if the task has no method that would store or compare its languages."""
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask

    return not {"state_dict", "build_model"} & set(vars(TranslationFromPretrainedBARTTask))


@MBART_LANGUAGES.replace(f"{TASK}.build_model")
def build_model(stock: Any, task: Any, cfg: Any, from_checkpoint: bool = False) -> Any:
    """Build the model.

    Raises:
        ValueError: source or target language has no tag, or ``--langs`` has another order than the
            pretrained model.
    """
    for option, language in (("source", task.cfg.source_lang), ("target", task.cfg.target_lang)):
        if f"[{language}]" not in getattr(task, f"{option}_dictionary"):
            raise ValueError(
                f"--{option}-lang {language}: the dictionary has no [{language}], because --langs "
                f"{','.join(task.langs)} lacks it; valid: the languages of the pretrained model, "
                "in its order"
            )
    if not from_checkpoint:
        compare_start(task.langs, task.cfg, "--langs")
    return stock(task, cfg, from_checkpoint)


@MBART_LANGUAGES.replace(f"{TASK}.state_dict")
def state_dict(stock: Any, task: Any) -> Dict[str, Any]:
    """Add the languages to what checkpoints keep of the task."""
    return {**stock(task), LANGUAGES: {"langs": [str(language) for language in task.langs]}}


@MBART_LANGUAGES.replace(f"{TASK}.load_state_dict")
def load_state_dict(stock: Any, task: Any, state: Dict[str, Any]) -> None:
    """Load the state of the task; raise ValueError unless its languages are those of the task."""
    stock_state = dict(state)
    if LANGUAGES in stock_state:
        compare_order(task.langs, stock_state.pop(LANGUAGES)["langs"], "the checkpoint", "--langs")
    stock(task, stock_state)


@BEAM_SIZE.probe
def _stays_set() -> bool:
    """Return True if building a generator sets the beam size of its models."""
    from fairseq.sequence_generator import EnsembleModel

    beam_sizes: List[int] = []
    model: Any = nn.Module()
    model.set_beam_size = beam_sizes.append
    EnsembleModel([model]).set_decoder_beam_size(2)  # the constructor of a generator does the same
    return bool(beam_sizes)


@BEAM_SIZE.replace("fairseq.sequence_generator:EnsembleModel.set_decoder_beam_size")
def set_decoder_beam_size(stock: Any, ensemble: Any, beam_size: int) -> None:
    """Do nothing, in place of setting the beam size for good when a generator is built.

    :func:`generate` sets it while it runs. A generator of another kind repeats the encoder's output
    for its beam itself.
    """


@BEAM_SIZE.replace(
    "fairseq.sequence_generator:SequenceGenerator.generate",
    "fairseq.sequence_generator:SequenceGeneratorWithAlignment.generate",
)
def generate(stock: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
    """Generate with the beam size set in the models, then restore their attributes."""
    from fairseq.sequence_generator import EnsembleModel

    ensemble = generator.model
    # The patch has replaced this method; functools.wraps keeps the stock one as __wrapped__.
    set_stock_beam_size = EnsembleModel.set_decoder_beam_size.__wrapped__
    before = [(module, _beam_attributes(module)) for module in ensemble.modules()]
    try:
        set_stock_beam_size(ensemble, generator.beam_size)
        return stock(generator, *args, **kwargs)
    finally:
        for module, attributes in before:
            for name in BEAM_ATTRIBUTES:
                vars(module).pop(name, None)
            vars(module).update(attributes)


def _beam_attributes(module: nn.Module) -> Dict[str, Any]:
    """Return those attributes of the instance, not of its class, that a beam size changes."""
    return {name: vars(module)[name] for name in BEAM_ATTRIBUTES if name in vars(module)}
