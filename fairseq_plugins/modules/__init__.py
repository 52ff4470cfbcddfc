"""Shared nn.Modules: the masked-LM encoder with prefix keys and values, and the frozen wrapper."""
