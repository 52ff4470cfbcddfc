"""Version of this distribution, equal to that of fairseq_plugins, which writes its models."""

VERSION = "0.2.0"
