"""Optional parts of SGA that the paper does not have; the plain path does not know of them.

``glancing.py`` shows true tokens in training, ``graph.py`` replaces the alignment's CTC by a graph
of slots, ``prefix_beam.py`` searches for the likeliest outputs of CTC, ``reranking.py`` orders them
by an autoregressive model. ``..variants`` puts them in.
"""
