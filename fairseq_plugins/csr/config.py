"""Options of code-switching restore, and the rules between them."""

from dataclasses import dataclass
from typing import Any, List, Optional

from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from ..common.data_bins import has_repeats, split_names
from ..common.options import Rule, in_range, option


@dataclass
class CodeSwitchingRestoreConfig(TranslationConfig):
    """fairseq's translation options, those of its mBART task, and how words are switched."""

    langs: str = option(
        "", "needed: all languages of the pretrained model in their order, for example en_XX,de_DE"
    )
    prepend_bos: bool = option(False, "put <s> in front of every sentence")
    lexicon: str = option(
        "",
        "folder with SOURCE-TARGET.tsv and TARGET-SOURCE.tsv, or en-de=FILE,de-en=FILE; files with "
        "one first language are merged. Needed to train; decoding reads none",
    )
    lexicon_top_k: int = option(
        5,
        "k, the nearest neighbours of a word that replace it, by rank; one is drawn at random; at "
        "least 1",
    )
    restore_langs: str = option(
        "",
        "languages whose sentences are restored (default: source and target language)",
    )
    one_language_per_batch: bool = option(
        False,
        "make each batch of sentences of one language, as the paper alternates between the two "
        "objectives (default: languages mixed in every batch)",
    )
    switch_ratio: float = option(
        0.35, "share of a sentence's words replaced, in (0, 1]; the paper has 0.35"
    )
    switch_span: float = option(
        3.5,
        "mean of the Poisson law of the spans, in words, in (0, 1000]; zeros are drawn again; "
        "mBART has 3.5",
    )
    sentencepiece_model: str = option("", "model that the data were cut with; needed to train")
    restore_updates: Optional[int] = option(
        None,
        "both stages in one run: restore for so many updates, then translation; the optimiser's "
        "moments are reset between (default: restore alone); the paper has 5000 of 30000",
    )
    seed: int = II("common.seed")
    update_freq: Any = II("optimization.update_freq")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")
    save_dir: str = II("checkpoint.save_dir")


AUTHORS_OPTIONS = {
    "--competence-step": "the restore stage is --task code_switching_restore, for all updates of "
    "the run, or for the first N with --restore-updates N; a run without it (their -1) is one "
    "without that task",
    "--span-length": "--task code_switching_restore has --switch-span, the mean of the Poisson law "
    "of the spans in words (their -1 means: leave it out)",
}
"""Option of the authors' fork of fairseq -> its equivalent here."""


def restore_languages(cfg: Any) -> List[str]:
    """List the languages whose sentences are restored."""
    return split_names(cfg.restore_langs) or [cfg.source_lang, cfg.target_lang]


def _lacks(cfg: Any, *languages: str) -> bool:
    """Return True if ``--langs`` lacks one of the languages."""
    return not set(languages) <= set(cfg.langs.split(","))


NO_ID = (
    "so that the dictionary has no id for it; valid: the languages of the pretrained model, in its "
    "order"
)

RULES = (
    in_range("switch_ratio", "(0, 1]"),
    in_range("switch_span", "(0, 1000]"),
    in_range("lexicon_top_k", "[1, inf)"),
    in_range("restore_updates", "[1, inf)"),
    Rule(
        lambda o: not o.langs,
        "--langs is needed: all languages of the pretrained model, in its order",
    ),
    Rule(
        lambda o: has_repeats(o.langs.split(",")) or not all(o.langs.split(",")),
        "--langs must name each language once; got {langs}",
    ),
    Rule(
        lambda o: has_repeats(split_names(o.restore_langs)),
        "--restore-langs must name each once; got {restore_langs}",
    ),
    Rule(
        lambda o: bool(o.restore_langs) and _lacks(o, *split_names(o.restore_langs)),
        "--restore-langs {restore_langs}: --langs {langs} lacks one of them, " + NO_ID,
    ),
)

LANGUAGE_RULES = (
    Rule(
        lambda o: _lacks(o, o.source_lang),
        "--source-lang {source_lang}: --langs {langs} lacks it, " + NO_ID,
    ),
    Rule(
        lambda o: _lacks(o, o.target_lang),
        "--target-lang {target_lang}: --langs {langs} lacks it, " + NO_ID,
    ),
)
"""Rules for the two languages, which fairseq takes from the data-bin if no option names them."""
