"""The stock mBART task compares its languages with those of the checkpoint that it starts from, goes on with or decodes, and
refuses those that have no tag."""

from typing import Any, Dict

from ..checkpoints.starting import KEY, compare_order, compare_start, language_state
from .mend import Mend, instead_of, is_mended

NAME = "mbart_languages"


def _compares_nothing() -> bool:
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    return not is_mended(Task.build_model, NAME) and not {"state_dict", "build_model"} & set(vars(Task))


def _compare() -> None:
    from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask as Task

    @instead_of(Task.build_model, NAME)
    def build_model(self: Any, cfg: Any, from_checkpoint: bool = False) -> Any:
        _check_tags(self)
        if not from_checkpoint:
            compare_start(self.langs, self.cfg)
        return super(Task, self).build_model(cfg, from_checkpoint)

    @instead_of(Task.state_dict, NAME)
    def state_dict(self: Any) -> Dict[str, Any]:
        return {**super(Task, self).state_dict(), **language_state(self.langs)}

    @instead_of(Task.load_state_dict, NAME)
    def load_state_dict(self: Any, state: Dict[str, Any]) -> None:  # of a checkpoint that is about to be decoded
        others = dict(state)
        if KEY in others:
            compare_order(self.langs, others.pop(KEY)["langs"], "the checkpoint")
        super(Task, self).load_state_dict(others)

    Task.build_model, Task.state_dict, Task.load_state_dict = build_model, state_dict, load_state_dict


def _check_tags(task: Any) -> None:
    """Refuse a language without a tag: it would silently be ``<unk>``."""
    for option, name in (("source", task.cfg.source_lang), ("target", task.cfg.target_lang)):
        dictionary = getattr(task, f"{option}_dictionary")
        if f"[{name}]" not in dictionary:
            raise ValueError(
                f"--{option}-lang {name}: the dictionary has no [{name}], because --langs {','.join(task.langs)} lacks it; valid: "
                "the languages of the pretrained model, in its order"
            )


MBART_LANGUAGES = Mend(
    name=NAME,
    reason="translation_from_pretrained_bart takes any --langs: a language silently gets the id of another, or <unk>",
    upstream="not reported: the order is asked for in the help of --langs alone",
    needed=_compares_nothing,
    apply=_compare,
)
