"""Options of the comparison systems of SGA. What needs a pretrained file that the world does not have is shown by unit tests."""

from typing import Any, Dict

import torch

from tests import builders
from tests.contract.effects import BASES, Run, flips, seen_by
from tests.contract.effects_models import PAIR

UNIT = "tests/unit/models/baselines/test_{}.py::{}"
_WIDTHS = [
    word
    for side in ("encoder", "decoder")
    for name, value in (
        ("layers", builders.LAYERS),
        ("embed-dim", builders.WIDTH),
        ("ffn-embed-dim", builders.FFN),
        ("attention-heads", builders.HEADS),
    )
    for word in (f"--{side}-{name}", str(value))
]
BASES["model transformer_from_xlmr"] = [
    *(*PAIR, "--task", "translation", "--arch", "transformer_from_xlmr_tiny", "--share-all-embeddings", *_WIDTHS),
    *("--criterion", "label_smoothed_cross_entropy", "--embedding-mismatch", "truncate"),
    *("--max-source-positions", str(builders.POSITIONS), "--max-target-positions", str(builders.POSITIONS)),
]


def _first_embedding(run: Run) -> Any:
    """Before the run makes the weights random."""
    torch.manual_seed(1)
    return run.task.build_model(run.model_options()).encoder.embed_tokens.weight[5].tolist()


def _trained(run: Run) -> Any:
    return sorted(name for name, parameter in run.model.named_parameters() if parameter.requires_grad)


FROM_XLMR: Dict[str, Any] = {
    "pretrained_xlmr": (["--pretrained-xlmr", "{mlm}"], _first_embedding),
    "freeze_encoder": (["--freeze-encoder"], _trained),
}
for _name, (_flip, _observe) in FROM_XLMR.items():
    flips(f"model transformer_from_xlmr: {_name}", _flip, _observe)
seen_by(
    "model transformer_from_xlmr: embedding_mismatch",
    UNIT.format("transformer_from_xlmr", "test_other_rows_and_other_files"),
)

ADAPTER: Dict[str, str] = {
    "adapter_backbone": "test_at_the_start_it_is_the_backbone_exactly",
    "adapter_width": "test_sizes_of_the_paper",
    "encoder_adapters": "test_which_languages_get_adapters",
    "decoder_adapters": "test_which_languages_get_adapters",
    "decoder_adapter_language": "test_the_decoder_may_follow_the_encoder",
}
MSP: Dict[str, str] = {
    "pretrained_gpt": "test_options_change_the_model",
    "prompt_length": "test_options_change_the_model",
    "no_prompt_scale": "test_options_change_the_model",
    "frozen_dropout": "test_dropout_inside_the_frozen_model_is_off_unless_asked_for",
    "decoder_layers": "test_bad_options",
    "decoder_embed_dim": "test_bad_options",
    "decoder_ffn_embed_dim": "test_bad_options",
    "decoder_attention_heads": "test_bad_options",
    "max_positions": "test_bad_options",
}
for _model, _table in (("transformer_adapter", ADAPTER), ("gpt_msp", MSP)):
    for _name, _test in _table.items():
        seen_by(f"model {_model}: {_name}", UNIT.format(_model, _test))
