"""Prompts are files in `rag_utils/prompts`: the source in the first line, then `[role]` lines that open a message."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rag_utils.schema import Prompt
from rag_utils.store import digest

FOLDER = Path(__file__).resolve().parent.parent / "prompts"
_ROLE = re.compile(r"^\[(system|user|assistant)\]\n", re.MULTILINE)
_PLACE = re.compile(r"\{([a-z_]+)\}")
_TAG_LIKE = re.compile(r"<(?=\s*[/|<A-Za-z])|\[(?=\s*/?INST)")


def load_prompt(name: str, **values: str | Sequence[str]) -> Prompt:
    """A prompt file with its places (`{name}`) filled by literal replacement.

    What looks like a tag or like a mark of a chat template in a value begins with `&lt;` or `&#91;` afterwards, so that
    a document cannot close the tags around it. A list becomes numbered blocks: `<passage1>`, its text, `</passage>`.

    Args:
        name: Of the file, without its ending.
        values: One for every place of the file, and no other.

    Returns:
        A prompt whose id is `name@` and 8 hex digits of the file's hash.

    Raises:
        ValueError: There is no such file, or the values are not those of its places.
    """
    messages, revision = _template(name)
    places = {place for _, text in messages for place in _PLACE.findall(text)}
    if places != values.keys():
        raise ValueError(f"prompt {name!r} has the places {sorted(places)}, got values for {sorted(values)}")
    filled = {place: _delimited(place, value) for place, value in values.items()}
    parts = ((role, _PLACE.sub(lambda place: filled[place[1]], text)) for role, text in messages)
    return Prompt(f"{name}@{revision}", tuple(parts))


def readable(text: str) -> str:
    """The text with "?" for what no model takes, halves of characters and NUL; as long as before."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def _delimited(place: str, value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return _TAG_LIKE.sub(lambda mark: "&lt;" if mark[0] == "<" else "&#91;", value)
    return "\n".join(f"<{place}{n}>\n{_delimited(place, text)}\n</{place}>" for n, text in enumerate(value, 1))


@cache
def _template(name: str) -> tuple[list[tuple[str, str]], str]:
    """Messages (role, text) and the file's revision."""
    files = {path.stem: path for path in FOLDER.glob("*.txt")}
    if name not in files:
        raise ValueError(f"there is no prompt {name!r}: use one of {', '.join(sorted(files))}")
    text = files[name].read_text(encoding="utf-8")
    _, *blocks = _ROLE.split(text)
    return [(role, block.strip()) for role, block in zip(blocks[::2], blocks[1::2], strict=True)], digest(text)[:8]
