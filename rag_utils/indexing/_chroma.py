"""Chroma behind the dense index: where a collection lives, who may write to it, what is kept of a chunk.

Chroma 1.5 lets two processes write to one folder, after which the first one's searches fail, so a folder is opened only
while it is read or written, by one process at a time.
"""

import json
import os
import re
import sqlite3
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from rag_utils.filters import chroma_metadata
from rag_utils.schema import Chunk
from rag_utils.store import digest

SPACE = "cosine"
_SECONDS_TO_WAIT = 60  # for another writer of the same folder
_CHUNK, _HASH = "handbook:chunk", "handbook:hash"  # metadata beside the chunk's own


class FolderInUseError(RuntimeError):
    """Another process writes to the index's folder."""


def collection_name(text: str) -> str:
    """A name that Chroma takes: letters, digits, - and _, 3 to 63 long; different texts give different names."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{1,61}[A-Za-z0-9]", text):
        return text
    stem = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:40]
    return f"{stem or 'x'}-{digest(text)[:16]}"


class ChromaStore:
    """Chunks with their vectors in one Chroma collection, whose metadata say which encoder made the vectors.

    Args:
        path: None = in memory, "http://host:port" = a server, else a folder.
        name: Of the collection.
        facts: Of the encoder: "encoder", "revision", "dimension", "field".

    Raises:
        ValueError: The collection was built with another encoder, dimension, field or metric.
        FolderInUseError: Another process held the folder for a minute.
    """

    def __init__(self, path: str | Path | None, name: str, facts: Mapping[str, str | int]):
        self._path, self._facts = path, dict(facts)
        self._name = collection_name(name if path else f"{name} {uuid.uuid4()}")  # clients in memory share their data
        self._folder = None
        self._client: Any = None
        if path is None:
            self._client = _memory_client()
            weakref.finalize(self, _drop, self._client, self._name).atexit = False
        elif str(path).startswith(("http://", "https://")):
            self._client = _server_client(str(path))
        else:
            self._folder = Path(path)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The Chroma collection, for as long as the block runs."""
        with self._opened_client() as client:
            yield self._collection(client)

    def read(self) -> tuple[list[Chunk], list[str], np.ndarray]:
        """All chunks, their content hashes and vectors, in the order they were added."""
        chunks: list[Chunk] = []
        hashes: list[str] = []
        vectors = [np.empty((0, int(self._facts["dimension"])), np.float32)]
        with self._opened_client() as client:
            collection, size = self._collection(client), client.get_max_batch_size()
            for start in range(0, collection.count(), size):
                page = collection.get(include=["metadatas", "embeddings"], limit=size, offset=start)
                chunks.extend(_chunk(*pair) for pair in zip(page["ids"], page["metadatas"], strict=True))
                hashes.extend(metadata[_HASH] for metadata in page["metadatas"])
                vectors.append(np.asarray(page["embeddings"], np.float32))
        return chunks, hashes, np.concatenate(vectors)

    def write(self, chunks: Sequence[Chunk], hashes: Sequence[str], vectors: np.ndarray) -> None:
        """Add chunks, or replace those with the same ids, in batches that Chroma takes."""
        metadata = [_metadata(*pair) for pair in zip(chunks, hashes, strict=True)]
        with self._opened_client() as client:
            collection, size = self._collection(client), client.get_max_batch_size()
            for start in range(0, len(chunks), size):
                part = slice(start, start + size)
                ids = [chunk.id for chunk in chunks[part]]
                collection.upsert(ids=ids, embeddings=vectors[part], metadatas=metadata[part])

    def nearest(self, vectors: np.ndarray, k: int) -> list[list[tuple[str, float]]]:
        """Ids and cosine distances of about the k nearest chunks of each vector (HNSW graph)."""
        with self.opened() as collection:
            most = min(k, collection.count())
            found = collection.query(query_embeddings=vectors, n_results=most, include=["distances"])
        return [list(zip(*row, strict=True)) for row in zip(found["ids"], found["distances"], strict=True)]

    @contextmanager
    def _opened_client(self) -> Iterator[Any]:
        if self._folder is None:
            yield self._client
            return
        with _alone_in(self._folder):
            import chromadb

            client: Any = chromadb.PersistentClient(str(self._folder), settings=_settings())
            try:
                yield client
            finally:
                client.close()

    def _collection(self, client: Any) -> Any:
        collection = client.get_or_create_collection(
            self._name, embedding_function=None, configuration={"hnsw": {"space": SPACE}}, metadata=self._facts
        )
        graph = collection.configuration_json.get("hnsw") or {}
        built = {**(collection.metadata or {}), "metric": graph.get("space")}
        wanted = self._facts | {"metric": SPACE}
        different = [fact for fact in wanted if built.get(fact) != wanted[fact]]
        if different:
            facts = "; ".join(f"{fact}: {built.get(fact)} there, {wanted[fact]} here" for fact in different)
            raise ValueError(
                f"the index {self._name!r} in {self._path} was built otherwise ({facts}): give another path or name, "
                "or delete the folder to build it anew"
            )
        return collection


def _chunk(id_: str, metadata: Mapping[str, Any]) -> Chunk:
    return Chunk(id=id_, **json.loads(metadata[_CHUNK]))


def content(chunk: Chunk) -> str:
    """All of a chunk but its id, as JSON."""
    return json.dumps(
        {
            "document_id": chunk.document_id,
            "start": chunk.start,
            "end": chunk.end,
            "fields": dict(chunk.fields),
            "metadata": dict(chunk.metadata),
        },
        ensure_ascii=False,
    )


def _metadata(chunk: Chunk, hash_: str) -> dict[str, Any]:
    """What Chroma's own filters can use, and the chunk itself."""
    return {**chroma_metadata(chunk.metadata), _CHUNK: content(chunk), _HASH: hash_}


def _settings() -> Any:
    os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")  # others' clients in this process need equal settings
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _memory_client() -> Any:
    import chromadb

    settings = _settings()
    try:
        return chromadb.EphemeralClient(settings=settings)
    except ValueError:  # one runs in this process already, with settings of its own
        return chromadb.EphemeralClient()


def _server_client(address: str) -> Any:
    import chromadb

    url = urlsplit(address)
    secure = url.scheme == "https"
    port = url.port or (443 if secure else 8000)
    try:
        return chromadb.HttpClient(url.hostname or "", port, ssl=secure, settings=_settings())
    except ValueError as error:
        raise ConnectionError(f"no Chroma server answers at {address}; start one: chroma run --port {port}") from error


def _drop(client: Any, name: str) -> None:
    """Free the memory of a collection that nobody can reach any more."""
    with suppress(Exception):  # Chroma may be gone already, and nobody is left to be told
        client.delete_collection(name)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder; the lock is SQLite's, which the system releases even when a process is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = sqlite3.connect(folder / "in_use.sqlite", timeout=_SECONDS_TO_WAIT, isolation_level=None)
    try:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise FolderInUseError(
                f"the index folder {folder} has been in use by another process for {_SECONDS_TO_WAIT} seconds: wait "
                "for it to end, or give another path"
            ) from error
        yield
    finally:
        lock.close()
