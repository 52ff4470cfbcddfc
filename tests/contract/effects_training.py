"""Options of tasks, criterions and scorers."""

from typing import Any, Callable, List
from unittest import mock

from fairseq_plugins.ops import vocab_loss, vocab_scan
from tests.contract import effects_models
from tests.contract.effects import BASES, Run, flips, outcome

SIZES = [
    f"--{side}-{name}={number}"
    for side in ("encoder", "decoder")
    for name, number in (("layers", 1), ("embed-dim", 16), ("ffn-embed-dim", 16), ("attention-heads", 2))
]
BASES["task sga_translation"] = BASES["criterion sga_ctc"] = BASES["model sga"]
BASES["task tlm_pretraining"] = BASES["model xlmr_mlm"]
BASES["criterion label_smoothed_linear_cross_entropy"] = [
    *(*effects_models.PAIR, "--task", "translation", "--arch", "transformer", *SIZES),
    *("--criterion", "label_smoothed_linear_cross_entropy", "--label-smoothing", "0.1", "--dropout", "0"),
]
for _scorer in ("rouge", "meteor_exact", "meteor_stem"):
    BASES[f"scoring {_scorer}"] = ["{data}", "--path", "unused", "--scoring", _scorer]


# ---- Tasks. ----


def _items(run: Run) -> List[Any]:
    return [run.dataset[index]["target"].tolist() for index in range(len(run.dataset))]


flips("task sga_translation: left_pad_source", ["--left-pad-source"], lambda run: outcome(lambda: run.task))
flips("task tlm_pretraining: data", [("{data}", "{other_data}")], lambda run: len(run.dataset))
flips("task tlm_pretraining: pairs", ["--pairs", "en-de,en-fr"], lambda run: len(run.dataset))
flips("task tlm_pretraining: monolingual", ["--monolingual", "de"], lambda run: len(run.dataset))
flips("task tlm_pretraining: mask_prob", ["--mask-prob", "0.9"], _items)
flips("task tlm_pretraining: one_side_prob", ["--one-side-prob", "1.0"], _items)
flips("task tlm_pretraining: tokens_per_sample", ["--tokens-per-sample", "15"], lambda run: run.task.max_positions())
BASES["task translation_multi_temperature"] = [
    *("{data}", "--task", "translation_multi_temperature", "--lang-pairs", "en-de,en-fr", "--arch", "transformer"),
    *("--max-source-positions", "90", "--max-target-positions", "90"),
]
flips(
    "task translation_multi_temperature: sampling_temperature_schedule",
    ["--sampling-temperature-schedule", "1:5:2"],
    lambda run: len(run.dataset),  # pairs in a row have their own sizes, drawn ones that of the base
    base=["--virtual-data-size", "9"],
)


# ---- Criterions. ----


def _calls(owner: Any, name: str) -> Callable[[Run], int]:
    """How often a function is called during one loss."""

    def observe(run: Run) -> int:
        with mock.patch.object(owner, name, autospec=True, side_effect=getattr(owner, name)) as counted:
            run.loss()
        return counted.call_count

    return observe


def _noisy_loss(run: Run) -> float:
    return run.loss(training=True)


flips("criterion sga_ctc: denoise_noise", ["--denoise-noise", "0"], _noisy_loss, base=["--denoise-noise", "1.0"])
flips(
    "criterion sga_ctc: denoise_noise_mix", ["--denoise-noise-mix", "blank=1"], _noisy_loss, ["--denoise-noise", "1.0"]
)
flips("criterion sga_ctc: denoise_unroll", ["--denoise-unroll", "3"], lambda run: run.loss())
flips("criterion sga_ctc: ctc_chunk_size", ["--ctc-chunk-size", "7"], _calls(vocab_scan, "chunk_logits"))
flips(
    "criterion label_smoothed_linear_cross_entropy: loss_chunk_size",
    ["--loss-chunk-size", "2"],
    _calls(vocab_loss._TokenScan, "block"),
)


# ---- Scorers. ----

PAIRS = (
    ("The cat walked home and slept", "the cat walking home slept and slept"),
    ("a dog barks at night, loudly", "at night a Dog"),
)


def _score(run: Run) -> float:
    for reference, hypothesis in PAIRS:
        run.scorer.add_string(reference, hypothesis)
    return run.scorer.score()


flips("scoring rouge: rouge_tokens", ["--rouge-tokens", "char"], _score)
flips("scoring rouge: rouge_cased", ["--rouge-cased"], _score)
for _scorer in ("meteor_exact", "meteor_stem"):
    flips(f"scoring {_scorer}: meteor_alpha", ["--meteor-alpha", "0.5"], _score)
    flips(f"scoring {_scorer}: meteor_beta", ["--meteor-beta", "1.0"], _score)
    flips(f"scoring {_scorer}: meteor_gamma", ["--meteor-gamma", "0.1"], _score)
    flips(f"scoring {_scorer}: meteor_tokens", ["--meteor-tokens", "char"], _score)
flips("scoring meteor_stem: meteor_prefix", ["--meteor-prefix", "2"], _score)
