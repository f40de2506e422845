"""From chunks to chunks with more fields: what is known comes from disk, the rest is made with a bar that shows it."""

import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_utils.llm import LanguageModel, estimate
from rag_utils.provenance import cache_folder, note
from rag_utils.schema import Chunk, Enricher
from rag_utils.store import Store, digest

Row = Mapping[str, Sequence[str]]
"""Phrases of a text by field."""

_TEXTS_A_CALL = 64  # after which results are kept and the bar moves


def enrich(chunks: Sequence[Chunk], enrichers: Sequence[Enricher], **options: Any) -> list[Chunk]:
    """The chunks with a field for each enricher, its phrases joined by ", "; options as of `extract_phrases`."""
    return add_fields(chunks, extract_phrases(chunks, enrichers, **options))


def add_fields(chunks: Sequence[Chunk], phrases: Mapping[str, Sequence[Sequence[str]]]) -> list[Chunk]:
    """The chunks with these fields, a chunk's phrases joined by ", "."""
    rows = [{field: ", ".join(column[i]) for field, column in phrases.items()} for i in range(len(chunks))]
    return [replace(chunk, fields={**chunk.fields, **row}) for chunk, row in zip(chunks, rows, strict=True)]


def extract_phrases(
    chunks: Sequence[Chunk],
    enrichers: Sequence[Enricher],
    *,
    cache: bool = True,
    llm_max_docs: int = 1_000_000,
    progress: bool = True,
) -> dict[str, list[tuple[str, ...]]]:
    """The phrases of each chunk's text by field; an enricher sees the field "text" and nothing else.

    Args:
        chunks: Equal texts are read once.
        enrichers: Anything that fits the protocol; `LLMTagEnricher` gives four fields.
        cache: Keep results on disk by (text, field, the enricher's `settings`), for all notebooks; one without
            `settings` is run each time, and failures are not kept.
        llm_max_docs: The paper's conditional rule (section 3.2.1): with more documents, enrichers that ask a language
            model are left out, with a warning. Below, what they may cost is printed before the first call.
        progress: Show a bar of the texts done.

    Raises:
        ValueError: Two enrichers fill one field, or one gives more or fewer results than it got texts.
    """
    filled = Counter(field for enricher in enrichers for field in _fields(enricher))
    if filled and max(filled.values()) > 1:
        raise ValueError(f"several enrichers fill the field {filled.most_common(1)[0][0]!r}: leave one of them out")
    texts = [chunk.fields["text"] for chunk in chunks]
    documents = len({chunk.document_id for chunk in chunks})
    store = Store(cache_folder() / "enriched.sqlite") if cache else None
    found: dict[str, list[tuple[str, ...]]] = {}
    for enricher in enrichers:
        if hasattr(enricher, "llm") and documents > llm_max_docs:
            _tell(enricher, f"left out, as {documents} documents are more than llm_max_docs = {llm_max_docs}")
            continue
        rows = _rows(enricher, list(dict.fromkeys(texts)), store, progress)
        found |= {field: [tuple(rows[text][field]) for text in texts] for field in _fields(enricher)}
    return found


def _fields(enricher: Any) -> tuple[str, ...]:
    return getattr(enricher, "fields", (enricher.field,))


def _rows(enricher: Any, texts: list[str], store: Store | None, progress: bool) -> dict[str, Row]:
    """Of each text."""
    from tqdm.auto import tqdm

    settings = getattr(enricher, "settings", None)
    kept = store if settings else None
    keys = {text: digest(enricher.field, settings or "", text) for text in texts}
    known = kept.get_many(keys.values()) if kept is not None else {}
    rows: dict[str, Row] = {text: json.loads(known[key]) for text, key in keys.items() if key in known}
    missing = [text for text in texts if text not in rows]
    _tell_cost(enricher, missing)
    failures: Mapping[str, str] = getattr(enricher, "failures", {})
    quiet = not progress or bool(os.environ.get("TQDM_DISABLE"))  # which tqdm itself overlooks in notebooks
    with tqdm(total=len(texts), initial=len(rows), desc=enricher.field, unit=" texts", disable=quiet) as bar:
        for start in range(0, len(missing), _TEXTS_A_CALL):
            new = _made(enricher, missing[start : start + _TEXTS_A_CALL])
            if kept is not None:
                good = {text: row for text, row in new.items() if text not in failures}
                kept.put_many({keys[text]: json.dumps(row).encode() for text, row in good.items()})
            rows |= new
            bar.update(len(new))
    if reasons := Counter(failures[text] for text in missing if text in failures):
        _tell(enricher, f"{reasons.total()} of {len(texts)} texts got nothing: {dict(reasons)}")
    return rows


def _tell_cost(enricher: Any, texts: list[str]) -> None:
    if texts and isinstance(getattr(enricher, "llm", None), LanguageModel):
        cost = estimate(enricher.prompts(texts), enricher.llm)
        tokens = f"about {cost.tokens_in:,} tokens in, at most {cost.tokens_out:,} out"
        print(f"{enricher.field}: {cost.calls} calls of {enricher.llm.name}, {tokens}, {cost.dollars:.2f} dollars")


def _made(enricher: Any, texts: list[str]) -> dict[str, Row]:
    made = enricher.rows if hasattr(enricher, "rows") else lambda texts: [{enricher.field: p} for p in enricher(texts)]
    return dict(zip(texts, made(texts), strict=True))


def _tell(enricher: Any, what: str) -> None:
    note("dropped", stream=enricher.field, what=what)
    warnings.warn(f"{enricher.field}: {what}", UserWarning, stacklevel=4)
