"""A translator without a model, which shows what the service does with one."""

import threading


class FakeTranslator:
    """Turns the letters of a line round and says to which language. ``held``: it waits in its first call until ``go`` is set.

    Attributes:
        calls: the lines of every call.
    """

    def __init__(self, pairs=(("en", "de"),), kind="slots", held=False):
        self.pairs, self.kind, self.precision = list(pairs), kind, "float32"
        self.limits = {"source_tokens": 12, "target_tokens": 24}
        self.calls = []
        self.entered, self.go = threading.Event(), threading.Event()
        if not held:
            self.go.set()

    def translate(self, lines, source=None, target=None, batch_tokens=4000):
        assert (source, target) in self.pairs
        self.calls.append(list(lines))
        self.entered.set()
        assert self.go.wait(30)
        if any("poison" in line for line in lines):
            raise RuntimeError("poison")
        return [f"{target}:{line[::-1]}" for line in lines]

    def count_tokens(self, line, source=None):
        return len(line.split()) + 1

    def trace(self, line, source=None, target=None):
        words = [f"▁{word}" for word in line.split()]
        return [words, ["", *words[1:]], ["", *words[1:]]]
