"""Glue to fairseq that two papers share: options, frozen sub-models, slots, samplers, data-bins."""
