"""Every decision of a search: a line of JSON each, and the same for people."""

import json
from pathlib import Path

__all__ = ["DecisionLog", "readable"]

LINES, TEXT = "decisions.jsonl", "decisions.txt"


class DecisionLog:
    """Keeps events (dicts with a `what`) until there is a folder to write them to."""

    def __init__(self):
        self.events = []

    def add(self, event) -> None:
        self.events.append(event)

    def write(self, folder) -> None:
        """Writes decisions.jsonl and decisions.txt."""
        folder = Path(folder)
        lines = "".join(json.dumps(event) + "\n" for event in self.events)
        (folder / LINES).write_text(lines, encoding="utf-8")
        (folder / TEXT).write_text("".join(f"{readable(e)}\n" for e in self.events), encoding="utf-8")


def readable(event) -> str:
    """An event as a line of text."""
    judged = f"accuracy {100 * event['accuracy']:.2f} %, loss {event['loss']:.4f}"
    if event["what"] == "whole":
        return f"the whole model: {judged}"
    if event["what"] == "rung":
        sizes = " ".join(f"{heads}/{neurons}" for heads, neurons in event["layers"])
        return f"{100 * event['share']:.1f} % of the cycles, heads/neurons {sizes}: {judged}"
    verdict = "goes" if event["goes"] else "stays"
    where = f"layer {event['layer']}"
    if event["what"] == "candidate":
        first, last = event["gone"]
        return f"{where}, {event['block']} {first} to {last}: {judged}, {100 * event['better']:.0f} % better; {verdict}"
    verdict = "attends hard" if event["goes"] else "attends to all"
    touched = f"{100 * event['rows']:.0f} % of the tokens see more"
    return f"{where}, {event['keys']} keys ({touched}): {judged}, {100 * event['better']:.0f} % better; {verdict}"
