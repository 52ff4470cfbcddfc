"""A translator without a model, to see what the service does with one."""

import threading


class FakeTranslator:
    """Reverse the letters of a line and name its target language.

    Attributes:
        calls: the lines of every call.
        entered: set when the first call begins.
        go: calls wait until it is set; it is set from the start unless ``is_blocked``.
    """

    def __init__(self, pairs=(("en", "de"),), kind="slots", is_blocked=False):
        self.pairs, self.kind, self.precision = list(pairs), kind, "float32"
        self.limits = {"source_tokens": 12, "target_tokens": 24}
        self.calls = []
        self.entered, self.go = threading.Event(), threading.Event()
        if not is_blocked:
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
