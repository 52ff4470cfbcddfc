"""gpt_msp equals the three stages written with Hugging Face's GPT-2; the language model equals GPT-2 and stock transformer_lm.

Source: MSP (Tan et al. 2022) section 3.3.
"""

import torch

from fairseq_plugins.baselines.prefix_decoder import PrefixDecoder
from fairseq_plugins.checkpoints import load
from fairseq_plugins.checkpoints.fitting import MARKERS
from fairseq_plugins.checkpoints.gpt import read_causal_lm
from tests import builders, gpt_builders

TOLERANCE = 1e-5


def huggingface(transformers, layers=gpt_builders.LAYERS):
    """The same weights in Hugging Face's own model."""
    config = transformers.GPT2Config(**{k: v for k, v in gpt_builders.config(layers).items() if k != "model_type"})
    model = transformers.GPT2LMHeadModel(config).eval()
    found = {k: v for k, v in gpt_builders.tensors(layers).items() if not k.endswith(".attn.bias")}
    missing, unexpected = model.load_state_dict(found, strict=False)
    assert unexpected == [] and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model


def ours(folder):
    found = read_causal_lm(folder)
    module = PrefixDecoder(found.layout, gpt_builders.dictionary())
    load(module, found.tensors, allow_missing=MARKERS)
    return module.eval()


def test_logits_are_those_of_gpt2(tmp_path, transformers):
    """Eleven layers: one-digit and two-digit numbers; every position in use."""
    module = ours(gpt_builders.write(tmp_path, gpt_builders.tensors(11)))
    tokens = builders.pad(gpt_builders.pieces_rows([gpt_builders.POSITIONS, 7, 1]))
    kept = tokens.ne(builders.PAD)
    with torch.no_grad():
        expected = huggingface(transformers, 11)(tokens, attention_mask=kept.long()).logits
        found = module.output_projection(module.run(tokens))
    torch.testing.assert_close(found[kept], expected[kept], rtol=TOLERANCE, atol=TOLERANCE)


def test_logits_are_those_of_stock_transformer_lm(tmp_path):
    """Post-norm, sinusoids, scaled and untied embeddings, ReLU: what transformer_lm has by default."""
    from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

    for wiring in (
        {},
        dict(decoder_normalize_before=False, decoder_learned_pos=False, no_scale_embedding=False, activation_fn="relu",
             share_decoder_input_output_embed=False, layernorm_embedding=True),
    ):  # fmt: skip
        settings = gpt_builders.stock_settings(**wiring)
        cfg = TransformerLanguageModelConfig(**{k: v for k, v in vars(settings).items() if k != "arch"})
        cfg.decoder_input_dim = cfg.decoder_output_dim = gpt_builders.WIDTH
        stock = TransformerLanguageModel.build_model(cfg, gpt_builders.task())
        builders.randomise(stock, seed=3)
        stock.eval()
        torch.save({"args": settings, "model": stock.state_dict()}, tmp_path / "lm.pt")
        module = ours(tmp_path / "lm.pt")
        tokens = builders.pad(gpt_builders.pieces_rows([9, 4]))
        kept = tokens.ne(builders.PAD)
        with torch.no_grad():
            expected, found = stock(tokens)[0], module.output_projection(module.run(tokens))
        torch.testing.assert_close(found[kept], expected[kept], rtol=TOLERANCE, atol=TOLERANCE)


def stage(transformers, model, tokens, prefix, mask):
    """One run of Hugging Face's model: logits, and keys and values of ``tokens`` alone."""
    cache = transformers.DynamicCache()
    for layer, (key, value) in enumerate(prefix):
        cache.update(key, value, layer)
    positions = torch.arange(tokens.size(1))[None].expand_as(tokens)
    out = model(tokens, past_key_values=cache, attention_mask=mask, position_ids=positions, use_cache=True)
    return out.logits, [
        [part[:, :, prefix[0][0].size(2) :] for part in (layer.keys, layer.values)] for layer in cache.layers
    ]


def three_stages(transformers, lm, prompts, data):
    """Encoding, re-encoding, decoding; prompts of each stage are (1, H, P, D) pairs, and come first."""
    source, target = data["src_tokens"], data["prev_output_tokens"]
    seen, written = source.ne(builders.PAD).long(), target.ne(builders.PAD).long()
    batch = source.size(0)
    wide = [[tuple(part.expand(batch, -1, -1, -1) for part in pair) for pair in one] for one in prompts]
    ones = seen.new_ones(batch, wide[0][0][0].size(2))

    def joined(first, second):
        return [tuple(torch.cat([a, b], dim=2) for a, b in zip(one, other)) for one, other in zip(first, second)]

    _, once = stage(transformers, lm, source, wide[0], torch.cat([ones, seen], 1))
    _, twice = stage(transformers, lm, source, joined(wide[1], once), torch.cat([ones, seen, seen], 1))
    return stage(transformers, lm, target, joined(wide[2], twice), torch.cat([ones, seen, written], 1))[0]


def test_the_three_stages(tmp_path, transformers):
    model = gpt_builders.msp(gpt_builders.write(tmp_path))
    model.encoder.encoding.scale.data.fill_(1.7)
    model.encoder.re_encoding.scale.data.fill_(0.5)  # max(1, scale): counts as 1
    model.decoder.decoding.scale.data.fill_(1.2)
    data = gpt_builders.net_input()
    pairs = []
    for own, factor in ((model.encoder.encoding, 1.7), (model.encoder.re_encoding, 1.0), (model.decoder.decoding, 1.2)):
        shape = (1, own.key.size(1), gpt_builders.HEADS, -1)
        layers = zip(own.key * factor, own.value * factor)
        pairs.append([tuple(part.view(shape).transpose(1, 2) for part in layer) for layer in layers])
    with torch.no_grad():
        expected, found = three_stages(transformers, huggingface(transformers), pairs, data), model(**data)[0]
    kept = data["prev_output_tokens"].ne(builders.PAD)
    torch.testing.assert_close(found[kept], expected[kept], rtol=TOLERANCE, atol=TOLERANCE)
