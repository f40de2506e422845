"""Pairs of answers with human votes: the only place where those come from."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_utils.corpora._catalogue import data_sets, find
from rag_utils.corpora._corpus import check_arguments, is_dev
from rag_utils.corpora._draft import Draft, Row, RowError, stable_id
from rag_utils.corpora._sources import open_tables
from rag_utils.provenance import note

_VOTES = {1: 1, 2: -1, 0: 0}
_GARBAGE = {-1: None}
_JUDGES = {"gpt-3.5 (recorded)": "gpt_result", "pandalm-7b (recorded)": "pandalm_result"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """Two answers to a question; a vote is +1 = answer 1 is better, -1 = answer 2 is, 0 = a tie."""

    id: str
    query_id: str
    """Equal for all pairs that answer the same question."""
    question: str
    """An instruction and its input."""
    answer_1: str
    answer_2: str
    models: tuple[str, ...]
    """Which wrote answer 1 and answer 2."""
    human: tuple[int, ...]
    """Votes of annotators 1, 2 and 3."""
    judges: Mapping[str, int | None]
    """Votes of language models as published, by the judge's name; None = no usable verdict."""


@dataclass(frozen=True)
class Preferences:
    """Judged pairs; the rest as in `Corpus`."""

    pairs: list[Preference]
    where: str
    dropped: dict[str, int]
    quirks: dict[str, int]
    problems: tuple[str, ...]
    missing: tuple[str, ...]


def load_preferences(
    name: str = "pandalm", data_dir: str | Path | None = None, split: str = "test", seed: int = 0
) -> Preferences:
    """Pairs of answers with the votes of humans and, where recorded, of language models.

    Args:
        name: "pandalm": pairs of models' answers to instructions (Wang et al., PandaLM, arXiv 2306.05087).
        data_dir: As in `load_corpus`.
        split: "test", "dev" or "all". Pairs are split by instruction and input, by the rule of `is_dev`, so that no
            question has pairs on both sides.
        seed: 0 is the handbook's one split, any other number draws another of the same kind.

    Raises:
        FileNotFoundError: The data is not there; says what was tried and the layout expected.
        ValueError: Another name or split.
    """
    known = [key for key, dataset in data_sets().items() if dataset.preferences]
    if name not in known:
        raise ValueError(f"there are no preferences {name!r}: choose one of {', '.join(known)}")
    check_arguments(split)
    dataset, folders = find(name, data_dir)
    where, tables = open_tables(dataset, folders)
    draft = Draft(strict=False)
    draft.read("pairs", dataset.tables["pairs"]._replace(adapt=_pair), tables["pairs"])
    pairs = []
    for asked, pair in map(draft.memo.__getitem__, draft.queries):
        if split == "all" or is_dev(f"{seed}:{asked}" if seed else asked) == (split == "dev"):
            pairs.append(pair)
    digest = sha256("".join(json.dumps(asdict(pair), sort_keys=True) for pair in pairs).encode()).hexdigest()
    books = draft.books()
    facts = {"fingerprint": digest, "where": where, "dropped": books["dropped"], "quirks": books["quirks"]}
    note("dataset", name=name, split=split, dev_share=0.4, seed=seed, n_pairs=len(pairs), **facts)
    return Preferences(pairs, where, **books)


def _pair(row: Row, memo: dict[str, Any]) -> None:
    """Keep what the pair is split by, and the pair, under its id; an answer may be empty, but not absent."""
    record, asked = row.record, [row.query["text"], row.query.pop("input", "")]
    row.query["text"] = "\n\n".join(filter(None, asked))
    answers = [record.get("response1"), record.get("response2")]
    if None in answers:
        raise RowError("no response")
    if any(isinstance(answer, bool) for answer in answers):
        row.quirks.append("an answer is a truth value, taken as text")
    try:
        human = tuple(_VOTES[record[f"annotator{n}"]] for n in (1, 2, 3))
        judges = {judge: (_VOTES | _GARBAGE)[record[column]] for judge, column in _JUDGES.items() if column in record}
    except (KeyError, TypeError) as error:
        raise RowError("not a vote", error) from error
    pair = Preference(
        id=str(row.query["id"]),
        query_id=stable_id(*asked),
        question=row.query["text"],
        answer_1=str(answers[0]),
        answer_2=str(answers[1]),
        models=tuple(str(record.get("cmp_key", "")).split("_")),
        human=human,
        judges=judges,
    )
    memo.setdefault(pair.id, ("".join(asked), pair))
