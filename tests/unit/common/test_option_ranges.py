"""Test that options out of range are refused, by name and value, before any file is read."""

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
        {
            "switch_ratio": [0.0, 1.5],
            "switch_span": [0.0, 1001.0],
            "lexicon_top_k": [0],
            "restore_updates": [0],
        },
    ),
    "sga_translation_multi": (
        {"lang_pairs": "de-en"},
        {"sampling_temperature": [0.5, INF, NAN]},
    ),
    "span_qa": (
        {"data": "nowhere"},
        {
            "max_question": [0],
            "window_stride": [0],
            "max_answer": [0],
            "max_positions": [0],
            "sampling_temperature": [0],
        },
    ),
    "span_corruption": (
        STREAMS,
        {
            "mask_prob": [0.0, 1.0, NAN],
            "pair_mask_prob": [0.0, 1.0, NAN],
            "mean_span": [0.5],
            "sampling_temperature": [0.5],
            "tokens_per_sample": [3],
            "pair_share": [1.1],
        },
    ),
    "tlm_pretraining": (STREAMS, {"mask_prob": [0.0, 1.5], "one_side_prob": [-0.1, 1.1]}),
    "translation_mixing": (
        {**PAIR, "mix_monolingual": "de"},
        {"mix_share": [1.0, -0.5], "mask_prob": [1.0]},
    ),
    "veco_pretraining": (
        STREAMS,
        {
            "mask_prob": [0.0],
            "sampling_alpha": [0.0],
            "tokens_per_sample": [5],
            "freeze_backbone_updates": [-1],
        },
    ),
}
"""Task -> other options, and wrong values of each option."""
CRITERIONS = {
    "sga_mask_predict": {
        "length_loss_weight": [-0.5, NAN],
        "label_smoothing": [1.0, -0.1],
        "min_mask_ratio": [1.5],
        "denoise_noise": [1.5, -0.1],
        "denoise_unroll": [0],
        "ctc_chunk_size": [0],
    },
    "relevance_ranking": {"ndcg_k": [0]},
    "cross_sequence_mlm": {"loss_chunk_size": [0]},
    "label_smoothed_linear_cross_entropy": {
        "label_smoothing": [1.0, -0.1],
        "loss_chunk_size": [0],
        "ignore_prefix_size": [-1],
    },
}


def list_cases(wrong_values):
    for option, values in wrong_values.items():
        for value in values:
            message = rf"--{option.replace('_', '-')} must (lie in|be) .*; got {value}$"
            yield option, value, message


@pytest.mark.parametrize("name", TASKS)
def test_tasks_refuse_options_out_of_range(name):
    options, wrong_values = TASKS[name]
    for option, value, message in list_cases(wrong_values):
        cfg = tasks.TASK_DATACLASS_REGISTRY[name](**{**options, option: value})
        with pytest.raises(ValueError, match=message):
            tasks.TASK_REGISTRY[name].setup_task(cfg)


@pytest.mark.parametrize("name", CRITERIONS)
def test_criterions_refuse_options_out_of_range(name, monkeypatch):
    task = builders.task()
    task.grades, task.head = [0, 1], "head"
    criterion_class = criterions.CRITERION_REGISTRY[name]
    monkeypatch.setattr(criterion_class, "tasks", (), raising=False)  # any task
    for option, value, message in list_cases(CRITERIONS[name]):
        cfg = criterions.CRITERION_DATACLASS_REGISTRY[name](**{option: value})
        with pytest.raises(ValueError, match=message):
            criterion_class.build_criterion(cfg, task)
