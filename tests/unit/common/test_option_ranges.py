"""Options out of range are refused before any file is read, by name, valid range and value."""

import math

import pytest
from fairseq import criterions, tasks

from tests import builders

NAN, INF = math.nan, math.inf
STREAMS = {"data": "nowhere", "pairs": "en-de", "monolingual": "it"}
PAIR = {"data": "nowhere", "source_lang": "en", "target_lang": "de"}
TASKS = {
    "code_switching_restore": (
        {**PAIR, "langs": "en,de"},
        {"switch_ratio": [0.0, 1.5], "switch_span": [0.0, 1001.0], "lexicon_top_k": [0], "restore_updates": [0]},
    ),
    "sga_translation_multi": ({"lang_pairs": "de-en"}, {"sampling_temperature": [0.5, INF, NAN]}),
    "span_qa": (
        {"data": "nowhere"},
        {
            name: [0]
            for name in ("max_question", "window_stride", "max_answer", "max_positions", "sampling_temperature")
        },
    ),
    "span_corruption": (
        STREAMS,
        {
            **{name: [0.0, 1.0, NAN] for name in ("mask_prob", "pair_mask_prob")},
            **{"mean_span": [0.5], "sampling_temperature": [0.5], "tokens_per_sample": [3], "pair_share": [1.1]},
        },
    ),
    "tlm_pretraining": (STREAMS, {"mask_prob": [0.0, 1.5], "one_side_prob": [-0.1, 1.1]}),
    "translation_mixing": ({**PAIR, "mix_monolingual": "de"}, {"mix_share": [1.0, -0.5], "mask_prob": [1.0]}),
    "veco_pretraining": (
        STREAMS,
        {"mask_prob": [0.0], "sampling_alpha": [0.0], "tokens_per_sample": [5], "freeze_backbone_updates": [-1]},
    ),
}
CRITERIONS = {
    "sga_mask_predict": {
        **{"length_loss_weight": [-0.5, NAN], "label_smoothing": [1.0, -0.1], "min_mask_ratio": [1.5]},
        **{"denoise_noise": [1.5, -0.1], "denoise_unroll": [0], "ctc_chunk_size": [0]},
    },
    "relevance_ranking": {"ndcg_k": [0]},
    "cross_sequence_mlm": {"loss_chunk_size": [0]},
    "label_smoothed_linear_cross_entropy": {
        **{"label_smoothing": [1.0, -0.1], "loss_chunk_size": [0], "ignore_prefix_size": [-1]}
    },
}


def cases(names):
    return [(name, option, value) for name, options in names for option, values in options.items() for value in values]


def refused(option, value):
    return pytest.raises(ValueError, match=rf"--{option.replace('_', '-')} must (lie in|be) .*; got {value}$")


def test_tasks():
    for name, option, value in cases((name, ranges) for name, (_, ranges) in TASKS.items()):
        cfg = tasks.TASK_DATACLASS_REGISTRY[name](**{**TASKS[name][0], option: value})
        with refused(option, value):
            tasks.TASK_REGISTRY[name].setup_task(cfg)


def test_criterions(monkeypatch):
    task = builders.task()
    task.grades, task.head = [0, 1], "head"
    for name, option, value in cases(CRITERIONS.items()):
        cfg = criterions.CRITERION_DATACLASS_REGISTRY[name](**{option: value})
        monkeypatch.setattr(criterions.CRITERION_REGISTRY[name], "tasks", (), raising=False)  # any task
        with refused(option, value):
            criterions.CRITERION_REGISTRY[name].build_criterion(cfg, task)
