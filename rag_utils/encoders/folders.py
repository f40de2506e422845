"""From a model's name to a folder on disk, and what its configuration says; nothing here loads the model."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_utils.encoders import bundled
from rag_utils.encoders.bundled import ModelError
from rag_utils.provenance import cache_folder
from rag_utils.store import Store, digest

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.onnx", "*.bin", "*.h5", "*.msgpack", "*.ot"]
"""Other formats of the same weights; pickled ones are never read."""


@dataclass(frozen=True)
class ModelFolder:
    """A model on disk."""

    name: str
    """What it was asked for by."""
    path: Path
    revision: str
    """First 16 hex digits of the weights' SHA-256."""
    max_tokens: int
    """Tokens of one input, special ones included; what is beyond is cut off."""
    dimension: int
    """Numbers in a vector of the last layer."""
    pooling: str
    """How token vectors become one: "cls" or "mean"."""


def find_model(name: str) -> ModelFolder:
    """The model behind a hub id or a local folder: bundled copies first, then the folder, then the hub.

    Raises:
        ModelError: There is none; the message names the model, the form of a folder and the command that fetches it.
    """
    path = _folder(name)
    weights = sorted(p for p in path.rglob("*.safetensors") if not {"onnx", "openvino"} & set(p.parts))
    if not weights or not (path / "config.json").exists():
        raise ModelError(f"{path} is no model folder: config.json, tokenizer.json and *.safetensors are expected in it")
    hashes = [_cached_sha256(file) for file in weights]
    if name == bundled.MINILM and path.parent.name == bundled.MINILM_PACKAGE and hashes != [bundled.MINILM_SHA256]:
        raise ModelError(f"{name}: the weights in {path} are not the pinned ones; install the package anew")
    revision = hashes[0] if len(hashes) == 1 else digest(*hashes)
    return ModelFolder(name, path, revision[:16], _max_tokens(path), _dimension(path), _pooling(path))


def _folder(name: str) -> Path:
    minilm = bundled.package_folder(bundled.MINILM_PACKAGE) if name == bundled.MINILM else None
    if minilm:
        return minilm / "model"
    if name in bundled.PREPARED:
        with suppress(bundled.NotInstalledError):  # the hub's copy will do
            return bundled.prepare(cache_folder() / "models", [name])[0]
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if not _HUB_ID.fullmatch(name):
        raise ModelError(f"there is no folder {name}: give one that exists, or a hub id such as {bundled.BGE_SMALL}")
    return _from_hub(name)


def _from_hub(name: str) -> Path:
    """The hub's copy on this disk, fetched on first use."""
    from huggingface_hub import snapshot_download

    with suppress(OSError):
        found = Path(snapshot_download(name, local_files_only=True))
        if list(found.rglob("*.safetensors")):  # else only a part was fetched before, a tokenizer for instance
            return found
    try:
        return Path(snapshot_download(name, ignore_patterns=_NOT_NEEDED, etag_timeout=5))
    except Exception as error:  # no network, offline mode, unknown name, no access: one remedy
        raise ModelError(
            f"the model {name} is not on this machine and could not be fetched ({str(error).splitlines()[0]}). Where "
            f"there is a network run `hf download {name} --local-dir FOLDER`, then give FOLDER as the name; it holds "
            "config.json, tokenizer.json and *.safetensors"
        ) from error


def _cached_sha256(path: Path) -> str:
    """Hashing 100 MB takes a quarter of a second, so the answer is kept until the file changes."""
    facts = path.stat()
    key = digest(str(path.resolve()), str(facts.st_size), str(facts.st_mtime_ns))
    store = Store(cache_folder() / "fingerprints.sqlite")
    known = store.get(key)
    if known is None:
        known = bundled.sha256(path).encode()
        store.put(key, known)
    return known.decode()


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _max_tokens(path: Path) -> int:
    """The smallest limit that any of the files states."""
    limits = [
        _read(path / "sentence_bert_config.json").get("max_seq_length"),
        _read(path / "tokenizer_config.json").get("model_max_length"),
        _read(path / "config.json").get("max_position_embeddings"),
    ]
    return int(min(limit for limit in (*limits, 2**20) if limit))


def _dimension(path: Path) -> int:
    projections = [_read(file)["out_features"] for file in sorted(path.glob("*_Dense/config.json"))]
    config = _read(path / "config.json")
    return projections[-1] if projections else config.get("hidden_size") or config["d_model"]


def _pooling(path: Path) -> str:
    config = _read(path / "1_Pooling" / "config.json")
    mean = config.get("pooling_mode") == "mean" or config.get("pooling_mode_mean_tokens")
    return "mean" if mean else "cls"
