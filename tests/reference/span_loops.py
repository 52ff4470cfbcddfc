"""Entity spans word by word, as the CoNLL script reads a file; slow, and written another way than the package's."""


def entities(tags):
    """(first word, last word, type) of each entity of one sentence; None as tag is one that training has not seen."""
    found, begun = set(), None
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = ("I", "", "(unseen)") if tag is None else tag.partition("-")
        if begun is not None and (prefix in "OBS" or name != begun[1]):
            found.add((begun[0], place - 1, begun[1]))
            begun = None
        if prefix != "O" and begun is None:
            begun = (place, name)
        if begun is not None and prefix in "ES":
            found.add((begun[0], place, begun[1]))
            begun = None
    return found


def counts(predicted, gold):
    """Type -> entities that are correct, predicted and gold, of several sentences."""
    pairs = [(entities(ours), entities(theirs)) for ours, theirs in zip(predicted, gold)]
    names = {span[2] for pair in pairs for spans in pair for span in spans}

    def number(spans, name):
        return sum(span[2] == name for span in spans)

    return {
        name: (
            sum(number(ours & theirs, name) for ours, theirs in pairs),
            sum(number(ours, name) for ours, _ in pairs),
            sum(number(theirs, name) for _, theirs in pairs),
        )
        for name in names
    }


def scores(predicted, gold):
    """accuracy, precision, recall and f1 of all types together, in percent."""
    by_type = counts(predicted, gold).values()
    correct, guessed, wanted = (sum(column) for column in zip(*by_type)) if by_type else (0, 0, 0)
    words = [own == other for ours, theirs in zip(predicted, gold) for own, other in zip(ours, theirs)]
    precision = 100.0 * correct / guessed if guessed else 0.0
    recall = 100.0 * correct / wanted if wanted else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return {"accuracy": 100.0 * sum(words) / len(words), "precision": precision, "recall": recall, "f1": f1}
