"""Options of SGA's free generation."""

from argparse import Namespace
from typing import Any

from fairseq_plugins.ops import vocab_scan
from tests.contract import effects_models
from tests.contract.effects import BASES, Run, flips
from tests.contract.effects_training import _calls, _noisy_loss

FREE = ["--alignment", "mask_predict", "--criterion", "sga_mask_predict"]
BASES["criterion sga_mask_predict"] = [*effects_models.BASES["model sga"], *FREE]


def decoding(run: Run) -> Any:
    return run.task.build_generator([run.model], Namespace()).mask_predict


flips("model sga: alignment", ["--alignment", "mask_predict"], Run.shapes)
flips("model sga: length_from", ["--length-from", "bos"], lambda run: run.loss(), base=FREE)
CRITERION = "criterion sga_mask_predict"
flips(f"{CRITERION}: length_loss_weight", ["--length-loss-weight", "0.5"], lambda run: run.loss())
flips(f"{CRITERION}: label_smoothing", ["--label-smoothing", "0.1"], lambda run: run.loss())
flips(f"{CRITERION}: min_mask_ratio", ["--min-mask-ratio", "0.2"], lambda run: run.loss())
flips(f"{CRITERION}: denoise_all_positions", ["--denoise-all-positions"], lambda run: run.loss())
flips(f"{CRITERION}: denoise_noise", ["--denoise-noise", "0"], _noisy_loss, base=["--denoise-noise", "1.0"])
flips(f"{CRITERION}: denoise_noise_mix", ["--denoise-noise-mix", "blank=1"], _noisy_loss, ["--denoise-noise", "1.0"])
flips(f"{CRITERION}: denoise_unroll", ["--denoise-unroll", "3"], lambda run: run.loss())
flips(f"{CRITERION}: ctc_chunk_size", ["--ctc-chunk-size", "7"], _calls(vocab_scan, "chunk_logits"))
flips("task sga_translation: mask_predict_iterations", ["--mask-predict-iterations", "2"], decoding, base=FREE)
flips("task sga_translation: length_beam", ["--length-beam", "3"], decoding, base=FREE)
