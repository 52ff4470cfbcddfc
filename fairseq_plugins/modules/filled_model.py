"""A model that starts from a pretrained file, which its own checkpoints make superfluous."""

from typing import Any, Optional


class FilledModel:
    """Mixin of a fairseq model: without its pretrained file it computes nothing before a checkpoint was loaded."""

    absent_source: Optional[str] = None  # why the pretrained file was not read; None when there is nothing amiss

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """A checkpoint of a run holds everything: the pretrained file need not be there to resume."""
        done = super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        self.absent_source = None
        return done

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The forward of the model behind; see :meth:`check_source`."""
        self.check_source()
        return super().forward(*args, **kwargs)  # type: ignore[misc]

    def check_source(self) -> None:
        """Raise ValueError when the pretrained file was not read, and no checkpoint of the run was loaded since."""
        if self.absent_source is not None:
            raise ValueError(f"{self.absent_source}, and there is no checkpoint of this run to continue")
