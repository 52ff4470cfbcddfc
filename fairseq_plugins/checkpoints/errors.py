"""The errors of everything that reads or writes checkpoints."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or does not have the expected content; the message names the file."""


class DamagedCheckpoint(CheckpointError):
    """A file that is truncated, damaged or no checkpoint at all."""
