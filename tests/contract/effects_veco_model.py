"""Options of VECO's architectures, of its pre-training criterion and of its translation task."""

from tests.contract.effects import seen_by

STATES, MASKED_LM = "tests/unit/models/veco/test_state.py", "tests/unit/models/veco/test_veco_pretrained.py"
TASK, CRITERION = (
    "tests/unit/tasks/test_translation_from_pretrained_veco.py",
    "tests/unit/criterions/test_cross_sequence_mlm.py",
)

seen_by("model veco: keep_encoder_layers", f"{STATES}::test_encoder_layers_are_chosen_too")
seen_by("model veco: keep_decoder_layers", f"{STATES}::test_chosen_layers_by_anchored_names")
seen_by("model veco: init_from_mlm", f"{MASKED_LM}::test_translation_takes_the_chosen_layers")
seen_by("model veco: embedding_mismatch", f"{STATES}::test_rows_follow_the_policy")
seen_by("criterion cross_sequence_mlm: objectives", f"{CRITERION}::test_objectives_choose_what_is_trained")
seen_by("criterion cross_sequence_mlm: loss_chunk_size", f"{CRITERION}::test_chunks_equal_materialised_logits")
seen_by("task translation_from_pretrained_veco: resized_dict_map", f"{STATES}::test_the_dictionary_map_chooses_rows")
seen_by("task translation_from_pretrained_veco: missing_language_tag", f"{TASK}::test_a_missing_tag_is_refused")
