"""The trainable masked LM: sizes, masked positions, the stock criterion, and a checkpoint SGA can read."""

import json
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.masked_lm import MaskedLmLoss

from fairseq_plugins import checkpoints
from fairseq_plugins.masked_lm.training import XLMRMaskedLMConfig, XLMRMaskedLMModel
from tests import builders

SIZES = {"xlmr_mlm_tiny": (4, 192, 768, 4), "xlmr_mlm_small": (6, 256, 1024, 4), "xlmr_mlm_base": (12, 768, 3072, 12)}


OPTIONS = dict(encoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=24, encoder_attention_heads=2)


def small(task=None, **changes):
    cfg = XLMRMaskedLMConfig(**{**OPTIONS, "tokens_per_sample": builders.POSITIONS, **changes})
    return XLMRMaskedLMModel.build_model(cfg, builders.task() if task is None else task)


@pytest.mark.parametrize("arch", sorted(SIZES))
def test_architectures_are_the_same_from_argparse_and_from_hydra(arch):
    model = builders.built_both_ways(arch, "tlm_pretraining", builders.task(), "meta")
    sizes = model.encoder.sizes
    assert (sizes.layers, sizes.embed_dim, sizes.ffn_dim, sizes.heads) == SIZES[arch]
    assert (sizes.max_positions, sizes.vocab_size) == (512, builders.VOCAB)  # --tokens-per-sample, the dictionary


def test_it_starts_from_berts_initialisation():
    model = small()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert 0.015 < float(parameter.detach().std()) < 0.025, name
        else:
            assert parameter.unique().tolist() == [float("norm" in name and name.endswith("weight"))], name
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not bool(model.encoder.sentence_encoder.embed_tokens.weight[builders.PAD].any())


def test_stock_criterion_gives_the_cross_entropy_of_the_masked_tokens():
    model = small().eval()
    sample = builders.batch(builders.source_rows([7, 5]))
    target = torch.full((2, 7), builders.PAD)
    target[0, 2], target[0, 3], target[1, 1] = 5, 6, 7
    sample.update(target=target, ntokens=12)
    sample["net_input"]["positions"] = torch.arange(2, 9).repeat(2, 1)
    masked = target.ne(builders.PAD)
    logits = model(**sample["net_input"])[0]
    torch.testing.assert_close(model(**sample["net_input"], masked_tokens=masked)[0], logits[masked])
    loss, size, _ = MaskedLmLoss(SimpleNamespace(tpu=False), builders.task())(model, sample)
    torch.testing.assert_close(loss, F.cross_entropy(logits[masked], target[masked], reduction="sum"))
    assert size == 3
    loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_positions_that_restart_change_the_output():
    model = small()
    builders.randomise(model, 1)
    model.eval()
    tokens = builders.source_rows([8])[0][None]
    restarted = torch.tensor([[2, 3, 4, 5, 2, 3, 4, 5]])
    counted = model(tokens)[0]
    assert torch.equal(model(tokens, positions=torch.arange(2, 10)[None])[0], counted)
    assert float((model(tokens, positions=restarted)[0] - counted).detach().abs().max()) > 1e-2


def test_its_checkpoint_can_be_read_as_a_frozen_model(tmp_path):
    """fairseq's XLM-R layout: what SGA's --pretrained-mlm takes."""
    model = small()
    builders.randomise(model, 3)
    cfg = {"_name": "xlmr_mlm_tiny", **OPTIONS, "max_positions": builders.POSITIONS}
    torch.save({"model": model.state_dict(), "args": None, "cfg": {"model": cfg}}, tmp_path / "model.pt")
    found = checkpoints.read_masked_lm(tmp_path / "model.pt")
    expected = dict(model.encoder.named_parameters())
    assert set(found.tensors) == set(expected)
    assert all(torch.equal(found.tensors[name], expected[name]) for name in expected)
    assert (found.sizes["heads"], found.sizes["max_positions"]) == (2, 40)
    assert model.max_positions() == 40


def test_init_from_mlm_takes_over_the_weights_and_checks_sizes(tmp_path):
    source = builders.masked_lm(seed=4)
    checkpoints.write_masked_lm(tmp_path, vars(source.sizes), source.state_dict(), dtype=torch.float32)
    model = small(init_from_mlm=str(tmp_path))
    tokens = torch.tensor([[builders.BOS, 5, 9, builders.EOS]])
    torch.testing.assert_close(model.eval()(tokens)[0], source.eval()(tokens), rtol=0, atol=0)
    task = builders.task()
    task.from_checkpoint = True  # which has the weights: the file need not be there any more
    small(task, init_from_mlm=str(tmp_path / "gone"))
    with pytest.raises(ValueError, match=r"--init-from-mlm .* has layers = 2, this model 3"):
        small(init_from_mlm=str(tmp_path), encoder_layers=3)
    torch.save({"model": model.state_dict(), "args": None, "cfg": None}, tmp_path / "old.pt")
    small(init_from_mlm=str(tmp_path / "old.pt"))  # states no heads: they are the model's
    for layers, words in ((0, "must be at least 1; got 0"), (None, "is needed, or an --arch")):
        with pytest.raises(ValueError, match=f"--encoder-layers {words}"):
            small(encoder_layers=layers)


def write_masked_lm(folder):
    source = builders.masked_lm(seed=4)
    checkpoints.write_masked_lm(folder, vars(source.sizes), source.state_dict(), dtype=torch.float32)
    return str(folder)


def write_tokenizer(folder, entries):
    content = {"model": {"vocab": {entry: row for row, entry in enumerate(entries)}}}
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")


def test_init_from_mlm_refuses_another_dictionary(tmp_path):
    """Entry 5 of the data's dictionary is p1; in the other masked LM it is p2."""
    path, symbols = write_masked_lm(tmp_path), list(builders.dictionary().symbols)
    changed = [*symbols[:5], "p2", "p1", *symbols[7:]]
    write_tokenizer(tmp_path, symbols)
    small(init_from_mlm=path)
    write_tokenizer(tmp_path, symbols[:7])  # names some rows
    small(init_from_mlm=path)
    write_tokenizer(tmp_path, changed)
    with pytest.raises(ValueError, match="its tokenizer has 'p2' as entry 5, the data's dictionary 'p1'"):
        small(init_from_mlm=path)
    builders.write_symbols(tmp_path / "dict.txt", symbols[4:])  # precedes the tokenizer
    small(init_from_mlm=path)
    builders.write_symbols(tmp_path / "dict.txt", changed[4:])
    with pytest.raises(ValueError, match=r"dict.txt beside it has 'p2' as entry 5, the data's dictionary 'p1'; run"):
        small(init_from_mlm=path)


def test_init_from_mlm_notes_that_no_entries_were_compared(tmp_path, caplog):
    caplog.set_level("INFO")
    small(init_from_mlm=write_masked_lm(tmp_path))
    assert "names no entries; only the number of rows was compared" in caplog.text
