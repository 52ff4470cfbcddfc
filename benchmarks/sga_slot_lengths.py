"""BLEU and length ratio of a model with ``--ctc-slots-from length``, decoded with predicted and with true target lengths.

    python -m benchmarks.sga_slot_lengths BIN SPLIT CHECKPOINT PRETRAINED_MLM
"""

import argparse

import sacrebleu
import torch
from fairseq import checkpoint_utils

import fairseq_plugins  # noqa: F401
from fairseq_plugins.generators.sga_generator import IterationOptions, SGAGenerator


def lengths(log_probs, true, how):
    """(B, N) log-probabilities of the lengths 1 .. N -> (B,): their mode, median or mean, or the true ones."""
    probs = log_probs.exp()
    if how == "mode":
        return probs.argmax(-1) + 1
    if how == "median":
        return (probs.cumsum(-1) < 0.5).sum(-1) + 1
    if how == "mean":
        return (probs * torch.arange(1, probs.size(1) + 1)).sum(-1).round().long()
    return true


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "split", "checkpoint", "pretrained_mlm"):
        parser.add_argument(name)
    args = parser.parse_args()
    overrides = {"data": args.bin, "pretrained_mlm": args.pretrained_mlm}
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([args.checkpoint], arg_overrides=overrides)
    task.load_dataset(args.split)
    dictionary, dataset = task.target_dictionary, task.datasets[args.split]
    text = lambda tokens: dictionary.string(tokens[tokens.ne(dictionary.pad())], "sentencepiece")  # noqa: E731
    batches = [
        dataset.collater([dataset[row] for row in range(first, min(first + 50, len(dataset)))])
        for first in range(0, len(dataset), 50)
    ]
    references = [text(tokens) for batch in batches for tokens in batch["target"]]
    for how in ("mode", "median", "mean", "true"):
        for penalty in (0.0, 1.5):
            generator = SGAGenerator(dictionary, IterationOptions(0, blank_penalty=penalty))
            outputs = []
            for batch in batches:
                true = (batch["target"].ne(dictionary.pad()) & batch["target"].ne(dictionary.eos())).sum(1)
                model.decoding_slots = lambda guidance, _, true=true: model.slot_lengths(
                    lengths(guidance.length_log_probs, true, how)
                )
                outputs += [text(found["tokens"]) for (found,) in generator.generate([model.eval()], batch)]
            bleu = sacrebleu.corpus_bleu(outputs, [references])
            print(f"{how}, penalty {penalty}: BLEU {bleu.score:.1f}, length ratio {bleu.sys_len / bleu.ref_len:.2f}")


if __name__ == "__main__":
    main()
