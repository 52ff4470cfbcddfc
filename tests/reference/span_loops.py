"""Find and score entity spans word by word, as the CoNLL script reads a file."""


def entities(tags):
    """Return (first word, last word, type) of each entity of a sentence.

    The tag None stands for one that training has not seen.
    """
    spans, entity = set(), None
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = ("I", "", "(unseen)") if tag is None else tag.partition("-")
        if entity is not None and (prefix in "OBS" or name != entity[1]):
            spans.add((entity[0], place - 1, entity[1]))
            entity = None
        if prefix != "O" and entity is None:
            entity = (place, name)
        if entity is not None and prefix in "ES":
            spans.add((entity[0], place, entity[1]))
            entity = None
    return spans


def counts(predicted, gold):
    """Count correct, predicted and gold entities of several sentences, by type."""
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
    """Compute accuracy, precision, recall and F1 over all types, in percent."""
    by_type = counts(predicted, gold).values()
    correct, guesses, answers = (sum(column) for column in zip(*by_type)) if by_type else (0, 0, 0)
    is_correct = []
    for predicted_tags, gold_tags in zip(predicted, gold):
        is_correct += [tag == gold_tag for tag, gold_tag in zip(predicted_tags, gold_tags)]
    precision = 100.0 * correct / guesses if guesses else 0.0
    recall = 100.0 * correct / answers if answers else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return {
        "accuracy": 100.0 * sum(is_correct) / len(is_correct),
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }
