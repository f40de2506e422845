"""Answers by the type of the question, without a language model: a name, yes or no, or that it cannot be said.

Multi-Meta-RAG (arXiv 2406.13213) ends with the thought that questions of different types want different answerers.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rag_utils.answering.spans import asked_labels
from rag_utils.chunking import no_use_for_entities, passage
from rag_utils.corpora import Corpus, require_side
from rag_utils.filters import NamedSourceExtractor
from rag_utils.filters.validation import Sources
from rag_utils.indexing import stems, words
from rag_utils.schema import Answer, Hit, Query, Retriever

INSUFFICIENT = "Insufficient information."
NAMES = ("PERSON", "ORG", "GPE", "NORP", "PRODUCT", "WORK_OF_ART", "FAC", "LOC", "EVENT")
"""Labels (spaCy's) of entities that are names, not dates or numbers."""

_CLAUSE = re.compile(
    r"(?:^\W*|[,;:.?!] )(?:(?:in|on|at|by|of|from|for|with|to) )?(?:"
    r"(?P<open>who|whom|whose|which|what|where|when|why|how)|"
    r"am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b",
    re.IGNORECASE,
)
"""Where the question itself begins; with what word tells what kind of answer it wants."""
_ASKS = re.compile(r"\b(?:who|whom|whose|which|what)\b", re.IGNORECASE)
_TIME = re.compile(
    r"\b(?:before|after|between|since|until|earlier|later|chang\w+|remain\w*|\d{4}-\d\d|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d+)\b",
    re.IGNORECASE,
)
_EITHER = re.compile(r"\b(\w+) or (?:(?:in|dis|un)\1|(?<=before or )after)\b", re.IGNORECASE)
"""Two opposites, one of which is asked for."""
_BARE = re.compile(r"^the\s+|['’]s?$", re.IGNORECASE)
_KEYWORDS = [
    re.compile(rf"\b(?:{word})\b", re.IGNORECASE)
    for word in (
        r"consisten\w+ inconsisten\w+ agree\w* disagree\w* similar\w* same both differ\w* contrast\w* unrelated "
        r"chang\w+ remain\w* no not without fail\w* never den(?:y|ies|ied)"
    ).split()
]


class TypedAnswerer:
    """Answers a question as its type wants it: entity, yes or no, "Insufficient information." (MultiHop-RAG's types).

    Two logistic regressions learn from dev questions. *Null*: whether the question can be answered, from the scores of
    the hits, the share of its words in the best one, and whether it names a known outlet. *Yes or no*: from words of
    agreement, change and negation in the question alone. The second learns the habits of who wrote the questions
    ("inconsistent" means no) and nothing from the evidence: it is a floor for readers, no reader.

    Args:
        retriever: Finds the hits; scores are learned as they come, so `fit` and `answer` need the same one.
        nlp: A spaCy pipeline that finds entities, as `chunking.load_pipeline()`.
        sources: Outlets of the corpus, as `NamedSourceExtractor` takes them.
        k: Hits that are read (6 in the paper).

    Attributes:
        trained: Questions that each of the two learned from, after `fit`.
    """

    def __init__(self, retriever: Retriever, nlp: Any, sources: Sources, k: int = 6):
        self.retriever, self.nlp, self.k = retriever, nlp, k
        self._named = NamedSourceExtractor(sources)
        self.trained: dict[str, int] = {}

    def fit(self, corpus: Corpus) -> "TypedAnswerer":
        """Learn from dev questions with their types; of the second kind, those answered yes or no.

        Raises:
            ValueError: A question is a test row, or one of the two has nothing to tell apart.
        """
        require_side(corpus, "dev")
        typed = [query for query in corpus.queries if query.id in corpus.types]
        evidence = self._evidence(typed, self.retriever.retrieve(typed, self.k))
        self._null = _classifier("null", evidence, [corpus.types[query.id] == "null" for query in typed])
        said = [(query.text, corpus.answers.get(query.id, ("",))[0].lower().strip(" .")) for query in typed]
        judged = [(text, answer == "yes") for text, answer in said if answer in ("yes", "no")]
        self._yes = _classifier("yes", [_keywords(text) for text, _ in judged], [yes for _, yes in judged])
        self.trained = {"null": len(typed), "yes": len(judged)}
        return self

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """One answer a query from the retriever's first k hits; see `read`."""
        return self.read(queries, self.retriever.retrieve(queries, self.k))

    def read(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[Answer]:
        """One answer a query from given hits, as its predicted type wants it; no name found, "insufficient" too."""
        types, texts = self.types(queries, hits), self.verdicts([query.text for query in queries])
        named = [i for i, type_ in enumerate(types) if type_ == "inference"]
        names = frequent_names([queries[i].text for i in named], [hits[i][: self.k] for i in named], self.nlp)
        chosen = dict(enumerate(texts)) | dict(zip(named, names, strict=True))
        chosen |= {i: "" for i, type_ in enumerate(types) if type_ == "null"}
        return [
            Answer(query_id=query.id, text=chosen[i] or INSUFFICIENT, hits=tuple(found))
            for i, (query, found) in enumerate(zip(queries, hits, strict=True))
        ]

    def types(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[str]:
        """Predicted types: "null" where the hits look as if they had no answer (or there are none), else by the words.

        See `question_type`; a router picks each question's answerer by them.
        """
        if not queries:
            return []
        null = self._null.predict(self._evidence(queries, hits))
        return [
            "null" if empty or not found else question_type(query.text)
            for query, found, empty in zip(queries, hits, null, strict=True)
        ]

    def verdicts(self, questions: Sequence[str]) -> list[str]:
        """Yes or no, by keywords; of two opposites asked for ("consistent or inconsistent") always the first."""
        if not questions:
            return []
        yes = self._yes.predict([_keywords(question) for question in questions])
        either = [_EITHER.search(question) for question in questions]
        return [both[1].capitalize() if both else "Yes" if one else "No" for both, one in zip(either, yes, strict=True)]

    def _evidence(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[list[float]]:
        """Of each question: best score, mean score, share of its words in the best hit, whether it names an outlet."""
        filters = self._named([query.text for query in queries])
        rows = []
        for query, found, named in zip(queries, hits, filters, strict=True):
            scores, asked = [hit.score for hit in found[: self.k]] or [0.0], set(stems(query.text))
            best = set(stems(found[0].chunk.fields["text"])) if found else set()
            rows.append([scores[0], sum(scores) / len(scores), len(asked & best) / max(len(asked), 1), bool(named)])
        return rows


def question_type(question: str) -> str:
    """The type "inference" for what asks for a name; of the others "temporal", with a word of time, or "comparison".

    By question words alone, so that it never says "null": whether there is an answer, only the corpus can tell.
    """
    clause = _CLAUSE.search(question)
    if clause["open"] if clause else _ASKS.search(question):
        return "inference"
    return "temporal" if _TIME.search(question) else "comparison"


def frequent_names(questions: Sequence[str], hits: Sequence[Sequence[Hit]], nlp: Any) -> list[str]:
    """The most frequent name in each question's hits that is not in the question; "" where there is none.

    Names are entities labelled as in `NAMES`, or as the question asks for (`asked_labels`: "which year"); the latter
    count three times as much. A part counts for the whole ("Ames" for "Lena Ames"). Each passage is read once,
    whatever number of questions it was found for.
    """
    passages = {hit.chunk.id: passage(hit.chunk) for found in hits for hit in found}
    parsed = nlp.pipe(passages.values(), disable=no_use_for_entities(nlp))
    names = dict(zip(passages, map(_names, parsed), strict=True))
    return [
        _most_frequent(question, [name for hit in found for name in names[hit.chunk.id]])
        for question, found in zip(questions, hits, strict=True)
    ]


def _names(document: Any) -> list[tuple[str, str]]:
    """Entities in the order of a parsed text, without article and possessive, and their labels."""
    return [(" ".join(_BARE.sub("", entity.text).split()), entity.label_) for entity in document.ents]


def _most_frequent(question: str, names: list[tuple[str, str]]) -> str:
    asked, labels = set(words(question)), asked_labels(question)
    counts: dict[str, float] = defaultdict(float)
    for name, label in names:
        if (label in NAMES or label in labels) and set(words(name)) - asked:
            counts[name] += 1 if not labels or label in labels else 1 / 3
    for part in list(counts):
        if wholes := [name for name in counts if name.endswith(f" {part}")]:
            counts[max(wholes, key=counts.__getitem__)] += counts.pop(part)
    return max(counts, key=counts.__getitem__, default="")


def _keywords(question: str) -> list[bool]:
    return [bool(word.search(question)) for word in _KEYWORDS]


def _classifier(name: str, rows: Sequence[Sequence[float]], answers: Sequence[bool]) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(set(answers)) < 2:
        raise ValueError(f"{name}: all {len(answers)} dev questions have one answer: take more of them (dev_share)")
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, answers)
