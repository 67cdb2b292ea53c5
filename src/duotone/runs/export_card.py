"""The card of an exported client: what it is, what it was made from, how to use it."""

from __future__ import annotations

from importlib.metadata import version

from duotone.federation.method import Method
from duotone.runs.client import ClientFacts
from duotone.runs.inputs import expected
from duotone.words import RULES


def card(facts: ClientFacts, method: Method, format: str) -> str:
    """Return the card as Markdown.

    Args:
        facts: What is known of the client.
        method: Its method.
        format: How the model was exported.
    """
    lines = [
        f"# The model of client {facts.name}",
        "",
        f"Trained with {method.name} ({method.title}) on {facts.data}, written by duotone "
        f"{version('duotone')}.",
        "",
        "| | |",
        "|---|---|",
        f"| client | {facts.name}, {_role(facts)} |",
        f"| round | {facts.round} |",
        f"| samples | {expected(facts.info)} |",
        f"| answers | {_answers(facts)} |",
        f"| network | {facts.model} |",
        f"| method from | {method.paper} |",
        "",
        "## What goes in",
        "",
        *_preparation(facts),
        "",
        "## How to use it",
        "",
        "```python",
        *(_onnx(facts) if format == "onnx" else _torch(facts)),
        "```",
        "",
        "## What it is for",
        "",
        "The model is fitted to the samples of this one client; for other clients it may be much "
        "worse. It holds what training left in its parameters, which can give away something of "
        "the samples it learnt from: treat the file as you treat them.",
        "",
    ]
    return "\n".join(lines)


def _role(facts: ClientFacts) -> str:
    if facts.gave is None:
        return f"a member with {facts.samples} training samples"
    shown = "" if facts.gave == "zero-shot" else f" of {facts.samples} samples"
    return f"a newcomer that gave {RULES[facts.gave]}{shown} ({facts.gave})"


def _answers(facts: ClientFacts) -> str:
    if facts.info.task == "regression":
        return "a number"
    if facts.class_names is None:
        return f"one of {facts.info.outputs} classes, 0 to {facts.info.outputs - 1}"
    names = (f"{number} = {name}" for number, name in enumerate(facts.class_names))
    return f"one of {facts.info.outputs} classes: {', '.join(names)}"


def _preparation(facts: ClientFacts) -> list[str]:
    if facts.info.is_text:
        return [
            f"Text, of which the last {facts.info.shape[0]} characters are read. A character is "
            "its place in the alphabet of client.json, counted from 1; 0 stands before the "
            "beginning of a shorter text and for characters that are not in it.",
        ]
    if not facts.info.is_image:
        return ["Rows of numbers, in the order of the columns that the model was trained with."]
    channels, height, width = facts.info.shape
    colour = "colour (RGB)" if channels == 3 else "grey"
    return [
        f"Images, turned upright, in {colour} without transparency, resized to {width}×{height} "
        "pixels (bilinear, smoothed). Pixels are 0 to 255.",
    ]


def _torch(facts: ClientFacts) -> list[str]:
    given = "To be, or not to b" if facts.info.is_text else "picture.png"
    return [
        "import duotone",
        "",
        'client = duotone.load_client(".")',
        f'client.predict("{given}")',
    ]


def _onnx(facts: ClientFacts) -> list[str]:
    if facts.info.is_image:
        channels, height, width = facts.info.shape
        mode = "RGB" if channels == 3 else "L"
        fill = f'image = Image.open("picture.png").convert("{mode}")'
        prepared = [
            "from PIL import Image",
            "",
            fill,
            f"image = image.resize(({width}, {height}), Image.Resampling.BILINEAR)",
            f"x = np.asarray(image, np.uint8).reshape(1, {height}, {width}, {channels})",
        ]
    elif facts.info.is_text:
        prepared = [
            "import json",
            "",
            'alphabet = json.load(open("client.json", encoding="utf-8"))["info"]["alphabet"]',
            f'text = "To be, or not to b"[-{facts.info.shape[0]}:]',
            f"x = np.zeros((1, {facts.info.shape[0]}), np.int64)",
            "x[0, -len(text):] = [alphabet.find(character) + 1 for character in text]",
        ]
    else:
        prepared = ["", f"x = np.zeros((1, {facts.info.shape[0]}), np.float32)  # your rows"]
    return [
        "import numpy as np",
        "import onnxruntime",
        *prepared,
        'session = onnxruntime.InferenceSession("model.onnx")',
        'scores = session.run(["scores"], {"x": x})[0]',
    ]
