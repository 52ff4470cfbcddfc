"""SGA decoding with ``--alignment dag``: one path through the graph of slots, then denoising until nothing changes."""

from typing import Any, Dict, List, NamedTuple, Optional

from ...ops.ctc import BestPath, linear_best_path
from ...ops.dag import lookahead, read_path, viterbi
from ...ops.masks import move
from ..decoding import DenoisingGenerator, IterationOptions

PATHS = ("lookahead", "greedy", "viterbi")


class GraphOptions(NamedTuple):
    """Which path is read."""

    path: str = "lookahead"  # --dag-decoding
    length_penalty: float = 1.0  # --lenpen, of viterbi


def graph_options(model: Any, path: Optional[str], lenpen: float) -> Optional[GraphOptions]:
    """Fill the default of what was not given, and check it against the model; None for a model without a graph."""
    if getattr(model, "alignment", "ctc") != "dag":
        if path is not None:
            raise ValueError(f"--dag-decoding {path}: this model was not trained with --alignment dag; leave it out")
        return None
    options = GraphOptions(GraphOptions().path if path is None else str(path), lenpen)
    if options.path not in PATHS:
        raise ValueError(f"--dag-decoding {path}: valid: {', '.join(PATHS)}")
    if options.path != "viterbi" and lenpen != 1.0:
        raise ValueError(
            f"--lenpen {lenpen}: with --alignment dag it is read by --dag-decoding viterbi alone; valid: 1"
        )
    return options


class SGADAGGenerator(DenoisingGenerator):
    """A path of the graph, then the denoiser; with the interface of fairseq's generators.

    greedy: from slot to the likeliest next slot; lookahead: to the one with the best link times token; viterbi: the likeliest path
    with its tokens, divided by the number of tokens to the power of ``--lenpen``. Of equal neighbours one token stays. They are
    duplicated and denoised as after mask-predict; with ``--iter-decode-max-iter 0`` or without a denoiser they are the result.

    Source: Huang et al. 2022 (DA-Transformer); Shao et al. 2022 (Viterbi).
    """

    def __init__(self, tgt_dict: Any, options: IterationOptions, graph: GraphOptions):
        super().__init__(tgt_dict, options)
        self.graph = graph

    def decode(self, model: Any, net_input: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """Generate for a batch: one hypothesis per sentence, as :class:`~.sga_mask_predict_generator.SGAMaskPredictGenerator`."""
        guidance = model.encode(net_input["src_tokens"])
        slots = model.slot_lengths(net_input["src_lengths"])
        hidden, links = model.align_graph(guidance, slots)
        weight, bias = model.projection
        best = linear_best_path(hidden, weight, bias, slots, model.blank)
        on_device = move(slots, links.device)
        if self.graph.path == "viterbi":
            visited = viterbi(links, best.log_probs, on_device, self.graph.length_penalty)
        else:
            visited = lookahead(links, best.log_probs, on_device, weight=float(self.graph.path == "lookahead"))
        found = read_path(best, visited, model.mask if self.passes(model) else self.eos)
        path = BestPath(found.tokens, found.tokens, found.log_probs)
        return self.denoised(model, guidance, path, found.lengths)
