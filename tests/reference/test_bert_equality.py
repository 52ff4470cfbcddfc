"""Test that BERT-shaped folders read as masked LMs equal Hugging Face's models (float32, 1e-5)."""

import json

import pytest
import torch

from fairseq_plugins.checkpoints import load, read_masked_lm
from fairseq_plugins.checkpoints.masked_lm import has_head
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes

ROWS, POSITIONS = 30, 20
WORDPIECES = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["<s>", "<pad>", "</s>", "<unk>"]


def write_wordpieces(folder):
    """Write ``vocab.txt`` as mBERT has it, with ``[MASK]`` in the middle."""
    entries = [*WORDPIECES, *(f"w{row}" for row in range(len(WORDPIECES), ROWS))]
    (folder / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries))
    return entries


def write_pieces(folder):
    """Write ``tokenizer.json`` as E5 has it: XLM-R's rows, and two that nothing names."""
    entries = [*PIECES, *(f"w{row}" for row in range(len(PIECES), ROWS - 3)), "<mask>"]
    vocabulary = [[entry, 0.0] for entry in entries]
    content = {"model": {"type": "Unigram", "vocab": vocabulary}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return entries


def huggingface_bert(transformers, class_name):
    """Build a random BERT of two layers whose layer norms have a telling epsilon."""
    config = transformers.BertConfig(
        vocab_size=ROWS,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=POSITIONS,
        layer_norm_eps=1e-2,
    )
    model = getattr(transformers, class_name)(config).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("class_name", ["BertForPreTraining", "BertForMaskedLM", "BertModel"])
@pytest.mark.parametrize("write_tokenizer", [write_wordpieces, write_pieces])
@torch.no_grad()
def test_a_padded_batch_equals_hugging_face(tmp_path, transformers, write_tokenizer, class_name):
    """Hidden states and logits, row for row of the dictionary that the file's entries make."""
    entries = write_tokenizer(tmp_path)
    theirs = huggingface_bert(transformers, class_name)
    theirs.save_pretrained(tmp_path)

    file = read_masked_lm(tmp_path, needs_head=False)
    ours = MaskedLM(MaskedLMSizes(**file.sizes)).eval()
    load(ours, file.tensors, allow_missing=(r"lm_head\..*",))
    assert has_head(file) == (class_name != "BertModel")
    assert file.sizes["epsilon"] == 1e-2 and file.sizes["max_positions"] == POSITIONS
    assert file.entries[file.mask_row] == "<mask>"

    # Row of each dictionary entry in their file.
    names = {
        "[CLS]": "<s>",
        "[PAD]": "<pad>",
        "[SEP]": "</s>",
        "[UNK]": "<unk>",
        "[MASK]": "<mask>",
    }
    row_of = {names.get(entry, entry): row for row, entry in enumerate(entries)}
    their_rows = torch.tensor([row_of[entry] for entry in file.entries])
    generator = torch.Generator().manual_seed(6)
    tokens = torch.randint(2, len(file.entries), (3, POSITIONS), generator=generator)
    tokens[1, 7:] = tokens[2, 1:] = 1
    is_token = tokens.ne(1)

    arguments = {"attention_mask": is_token.long(), "output_hidden_states": True}
    output = theirs(their_rows[tokens], **arguments)
    hidden = ours.sentence_encoder(tokens)
    for states, expected in zip(hidden, output.hidden_states[1:]):
        torch.testing.assert_close(states[is_token], expected[is_token], rtol=0, atol=1e-5)
    if class_name != "BertModel":
        logits = getattr(output, "prediction_logits", None)
        logits = output.logits if logits is None else logits
        expected = logits[..., their_rows][is_token]
        actual = ours(tokens)[..., : len(their_rows)][is_token]
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
