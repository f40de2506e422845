"""A `LexicalIndex` in a folder: numpy arrays and JSON, with checksums, so that damage is found when it is read."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_utils.indexing._bm25 import Postings, with_bounds
from rag_utils.schema import Chunk

_ARRAYS = ("starts", "chunks", "weights", "fields")
_FILES = ("postings.npz", "terms.json", "chunks.jsonl")


def write(
    folder: Path, chunks: Sequence[Chunk], terms: Sequence[str], postings: Postings, about: Mapping[str, Any]
) -> None:
    """Writes the parts of an index; what stood there is overwritten, `index.json` with the checksums last."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "postings.npz", **{name: getattr(postings, name) for name in _ARRAYS})
    (folder / "terms.json").write_text(json.dumps(terms), encoding="utf-8")
    with (folder / "chunks.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(_row(chunk)) + "\n" for chunk in chunks)
    (folder / "index.json").write_text(json.dumps({**about, "sha256": _sums(folder)}, indent=2), encoding="utf-8")


def read(folder: Path) -> tuple[list[Chunk], list[str], Postings, dict[str, Any]]:
    """The parts as they were written; ValueError with the reason where a file is missing or has changed."""
    try:
        about = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        if about["sha256"] != _sums(folder):
            raise ValueError("a file is not as it was saved")
        with (folder / "chunks.jsonl").open(encoding="utf-8") as lines:
            chunks = [Chunk(**json.loads(line)) for line in lines]
        terms = json.loads((folder / "terms.json").read_text(encoding="utf-8"))
        with np.load(folder / "postings.npz", allow_pickle=False) as arrays:
            starts, positions, weights, fields = (arrays[name] for name in _ARRAYS)
            postings = with_bounds(starts, positions, weights, fields, len(chunks))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{folder} holds no readable LexicalIndex ({error})"
        raise ValueError(f"{reason}: build the index from its chunks and save it again") from error
    return chunks, terms, postings, about


def _row(chunk: Chunk) -> dict[str, Any]:
    row = {field.name: getattr(chunk, field.name) for field in dataclasses.fields(chunk)}
    return row | {"fields": dict(chunk.fields), "metadata": dict(chunk.metadata)}


def _sums(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in _FILES}
