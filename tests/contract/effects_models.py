"""Options of the architectures."""

from typing import Any, Dict

import torch

from fairseq_plugins.ops.ctc import BestPath
from tests import builders
from tests.contract.effects import BASES, Run, flips, outcome, seen_by

PAIR = ["{data}", "--source-lang", "en", "--target-lang", "de"]
BASES["model sga"] = [
    *(*PAIR, "--task", "sga_translation", "--arch", "sga_tiny", "--criterion", "sga_ctc"),
    *("--pretrained-mlm", "{mlm}", "--prompt-length", "3"),
]
BASES["model nat_ctc"] = [
    *(*PAIR, "--task", "sga_translation", "--arch", "nat_ctc_tiny", "--criterion", "sga_ctc", "--encoder-layers", "1"),
    *("--decoder-layers", "1", "--embed-dim", "16", "--ffn-embed-dim", "24", "--attention-heads", "2"),
]
BASES["model xlmr_mlm"] = [
    *("{data}", "--task", "tlm_pretraining", "--pairs", "en-de", "--arch", "xlmr_mlm_tiny", "--criterion", "masked_lm"),
    *("--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "24"),
    *("--encoder-attention-heads", "2", "--tokens-per-sample", "40"),
]

_WIDTHS = [
    word
    for side in ("encoder", "decoder")
    for name, value in (
        ("embed-dim", builders.WIDTH),
        ("ffn-embed-dim", builders.FFN),
        ("attention-heads", builders.HEADS),
    )
    for word in (f"--{side}-{name}", str(value))
]
BASES["model deltalm"] = [
    *(
        *PAIR,
        "--task",
        "translation",
        "--arch",
        "deltalm_tiny",
        "--criterion",
        "label_smoothed_cross_entropy",
        *_WIDTHS,
    ),
    *(
        "--encoder-layers",
        str(builders.LAYERS),
        "--decoder-layers",
        str(builders.LAYERS // 2),
        "--share-all-embeddings",
    ),
    *("--max-source-positions", str(builders.POSITIONS), "--max-target-positions", str(builders.POSITIONS)),
]


def _loss(run: Run) -> float:
    return run.loss()


def _training_loss(run: Run) -> float:
    return run.loss(training=True)


def _built(run: Run) -> str:
    return outcome(lambda: run.model)


# ---- SGA. ----


def _guidance_in_training(run: Run) -> float:
    run.model.train()
    torch.manual_seed(3)
    return float(run.model.encode(builders.source_rows([8])[0][None]).prefix[-1][0].sum())


def _denoiser_reads(run: Run) -> Any:
    blank, piece = torch.tensor([[run.model.blank]]), torch.tensor([[7]])
    return run.model.denoiser_input(BestPath(blank, piece, torch.zeros(1, 1))).tolist()


def _losses(run: Run) -> Any:
    return sorted(run.criterion(run.model, run.sample())[2])


def _slots(run: Run) -> Any:
    return run.model.slot_lengths(torch.tensor([4])).tolist()


SGA: Dict[str, Any] = {
    "pretrained_mlm": (["--pretrained-mlm", "{other_mlm}"], lambda run: run.model.frozen.fingerprint),
    "prompt_length": (["--prompt-length", "5"], Run.shapes),
    "prompt_scale": (["--prompt-scale"], Run.shapes),
    "ctc_upsample": (["--ctc-upsample", "3"], _slots),
    "ctc_blank": (["--ctc-blank", "<pad>"], _loss),
    "no_denoising": (["--no-denoising"], _losses),
    "fill_blanks": (["--fill-blanks"], _denoiser_reads),
    "frozen_dropout": (["--frozen-dropout", "0.5"], _guidance_in_training),
    "save_full_model": (["--save-full-model"], lambda run: sorted(run.model.state_dict())),
    # Sizes say what the pretrained file must have: another one is refused, and the message names the option.
    "encoder_layers": (["--encoder-layers", "7"], _built),
    "encoder_embed_dim": (["--encoder-embed-dim", "99"], _built),
    "encoder_ffn_embed_dim": (["--encoder-ffn-embed-dim", "99"], _built),
    "encoder_attention_heads": (["--encoder-attention-heads", "4"], _built),
    "max_positions": (["--max-positions", "99"], _built),
}

# ---- nat_ctc. ----

NAT_CTC: Dict[str, Any] = {
    "encoder_layers": (["--encoder-layers", "2"], Run.shapes),
    "decoder_layers": (["--decoder-layers", "2"], Run.shapes),
    "embed_dim": (["--embed-dim", "8"], Run.shapes),
    "ffn_embed_dim": (["--ffn-embed-dim", "12"], Run.shapes),
    "attention_heads": (["--attention-heads", "4"], _loss),
    "dropout": (["--dropout", "0.5"], _training_loss),
    "attention_dropout": (["--attention-dropout", "0.5"], _training_loss),
    "activation_dropout": (["--activation-dropout", "0.5"], _training_loss),
    "normalize_before": (["--normalize-before"], _loss),
    "max_source_positions": (["--max-source-positions", "50"], lambda run: run.model.max_positions()),
    "ctc_upsample": (["--ctc-upsample", "3"], _slots),
    "ctc_blank": (["--ctc-blank", "<mask>"], _loss),
}

# ---- Masked LM. ----


def _logits(run: Run, training: bool = False) -> float:
    run.model.train(training)
    torch.manual_seed(3)
    return float(run.model(builders.source_rows([8])[0][None])[0].abs().sum())


def _first_weights(run: Run) -> Any:
    """Before the run makes them random."""
    torch.manual_seed(1)
    return run.task.build_model(run.model_options()).encoder.output_weight[5].tolist()


XLMR_MLM: Dict[str, Any] = {
    "encoder_layers": (["--encoder-layers", "1"], Run.shapes),
    "encoder_embed_dim": (["--encoder-embed-dim", "8"], Run.shapes),
    "encoder_ffn_embed_dim": (["--encoder-ffn-embed-dim", "12"], Run.shapes),
    "encoder_attention_heads": (["--encoder-attention-heads", "4"], _logits),
    "max_positions": (["--max-positions", "30"], Run.shapes),
    "dropout": (["--dropout", "0.5"], lambda run: _logits(run, training=True)),
    "attention_dropout": (["--attention-dropout", "0.5"], lambda run: _logits(run, training=True)),
    "init_from_mlm": (["--init-from-mlm", "{mlm}"], _first_weights),
}

# ---- DeltaLM. ----


def _first_embedding(run: Run) -> Any:
    """Before the run makes the weights random."""
    torch.manual_seed(1)
    return run.task.build_model(run.model_options()).encoder.embed_tokens.weight[5].tolist()


DELTALM: Dict[str, Any] = {
    # The world has no DeltaLM: the masked LM is refused, and the message names the option's file.
    "pretrained_deltalm_checkpoint": (["--pretrained-deltalm-checkpoint", "{mlm}/model.safetensors"], _built),
    "init_from_mlm": (["--init-from-mlm", "{mlm}"], _first_embedding),
    "decoder_block": (["--decoder-block", "vanilla"], Run.shapes),
}
seen_by(
    "model deltalm: embedding_mismatch",
    "tests/unit/models/test_deltalm_released.py::test_truncate_keeps_the_first_rows",
)

for _model, _table in (("sga", SGA), ("nat_ctc", NAT_CTC), ("xlmr_mlm", XLMR_MLM), ("deltalm", DELTALM)):
    for _name, (_flip, _observe) in _table.items():
        flips(f"model {_model}: {_name}", _flip, _observe)
