"""The stock mBART task: it runs, and compares its languages with those of the checkpoint that it starts from, resumes or
decodes. A language without a tag is refused."""

from typing import Any, Dict

from ..checkpoints.fitting import LANGUAGES, compare_order, compare_start, language_state
from .patch import Patch, source_has

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

    def args(self: Any) -> Any:
        return self.__dict__.get("args", self.cfg)

    def set_args(self: Any, value: Any) -> None:
        self.__dict__["args"] = value

    Task.args = property(args, set_args)


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
        compare_start(task.langs, task.cfg)
    return stock(task, cfg, from_checkpoint)


@MBART_LANGUAGES.replace(f"{TASK}.state_dict")
def state_dict(stock: Any, task: Any) -> Dict[str, Any]:
    """Keep the languages in checkpoints."""
    return {**stock(task), **language_state(task.langs)}


@MBART_LANGUAGES.replace(f"{TASK}.load_state_dict")
def load_state_dict(stock: Any, task: Any, state: Dict[str, Any]) -> None:
    """Compare the languages with those of a checkpoint that is about to be decoded."""
    others = dict(state)
    if LANGUAGES in others:
        compare_order(task.langs, others.pop(LANGUAGES)["langs"], "the checkpoint")
    stock(task, others)
