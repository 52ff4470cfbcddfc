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
            **{name: [0] for name in ("max_question", "window_stride", "max_answer", "max_positions")},
            "sampling_temperature": [0.5, NAN],
        },
    ),
    "span_corruption": (
        STREAMS,
        {
            **{name: [0.0, 1.0, NAN] for name in ("mask_prob", "pair_mask_prob")},
            **{name: [0.5, INF] for name in ("mean_span", "sampling_temperature")},
            **{"tokens_per_sample": [3], "pair_share": [-0.1, 1.1]},
        },
    ),
    "tlm_pretraining": (STREAMS, {"mask_prob": [0.0, 1.5], "one_side_prob": [-0.1, 1.1]}),
    "translation_mixing": ({**PAIR, "mix_monolingual": "de"}, {"mix_share": [1.0, -0.5], "mask_prob": [1.0]}),
    "veco_pretraining": (
        STREAMS,
        {
            **{name: [0.0, 1.5, NAN] for name in ("mask_prob", "sampling_alpha")},
            **{"tokens_per_sample": [5], "freeze_backbone_updates": [-1]},
        },
    ),
}
CRITERIONS = {
    "sga_mask_predict": {
        **{"length_loss_weight": [-0.5, NAN, INF], "label_smoothing": [1.0, -0.1, NAN]},
        **{name: [1.5, -0.1, NAN] for name in ("min_mask_ratio", "denoise_noise")},
        **{name: [0] for name in ("denoise_unroll", "ctc_chunk_size")},
    },
    "relevance_ranking": {"ndcg_k": [0]},
    "cross_sequence_mlm": {"loss_chunk_size": [0]},
    "label_smoothed_linear_cross_entropy": {
        "label_smoothing": [1.0, -0.1],
        **{"loss_chunk_size": [0], "ignore_prefix_size": [-1]},
    },
}


def cases(names):
    return [(name, option, value) for name, options in names for option, values in options.items() for value in values]


def refused(option, value):
    return pytest.raises(ValueError, match=rf"--{option.replace('_', '-')} must (lie in|be) .*; got {value}$")


@pytest.mark.parametrize(("name", "option", "value"), cases((name, ranges) for name, (_, ranges) in TASKS.items()))
def test_tasks(name, option, value):
    with refused(option, value):
        tasks.TASK_REGISTRY[name].setup_task(tasks.TASK_DATACLASS_REGISTRY[name](**{**TASKS[name][0], option: value}))


@pytest.mark.parametrize(("name", "option", "value"), cases(CRITERIONS.items()))
def test_criterions(name, option, value):
    task = builders.task()
    task.grades, task.head = [0, 1], "head"
    cfg = criterions.CRITERION_DATACLASS_REGISTRY[name](**{option: value})
    with refused(option, value):
        criterions.CRITERION_REGISTRY[name].build_criterion(cfg, task)
