"""Options of ``nlu_encoder``: each is shown by a test of the model, built from its options as a task builds it."""

from tests.contract.effects import seen_by

_MODEL = "tests/unit/models/test_nlu_model.py::"
_HEADS = "tests/unit/models/test_nlu_heads.py::"

for _name, _test in {
    "pretrained_encoder": _MODEL + "test_a_file_fills_the_model_and_is_needed_no_more",
    "encoder_family": _MODEL + "test_from_scratch_both_ways_build_the_same",
    "encoder_layers": _MODEL + "test_sizes_are_compared_with_the_file",
    "encoder_embed_dim": _MODEL + "test_from_scratch_both_ways_build_the_same",
    "encoder_ffn_embed_dim": _MODEL + "test_from_scratch_both_ways_build_the_same",
    "encoder_heads": _MODEL + "test_heads_that_the_file_does_not_tell",
    "max_source_positions": _MODEL + "test_fewer_positions_are_the_first",
    "embedding_mismatch": _MODEL + "test_rows_by_policy",
    "sentence_pooling": _HEADS + "test_a_sentence_head_is_fairseqs_on_what_is_pooled",
    "dropout": _HEADS + "test_dropout_of_the_encoder",
    "attention_dropout": _HEADS + "test_dropout_of_the_encoder",
    "activation_dropout": _HEADS + "test_dropout_of_the_encoder",
    "encoder_layerdrop": _HEADS + "test_the_remaining_options_reach_the_encoder",
    "head_dropout": _HEADS + "test_dropout_of_the_heads",
    "checkpoint_activations": _HEADS + "test_the_remaining_options_reach_the_encoder",
}.items():
    seen_by(f"model nlu_encoder: {_name}", _test)
