"""Yes, no or maybe: read from a reply, or decided without a language model (MetaGen Blended RAG, section 4.2)."""

import re
from collections.abc import Sequence
from typing import Any

from rag_utils.corpora import Corpus, require_side
from rag_utils.schema import Answer, Query, Retriever

DECISIONS = ("yes", "no", "maybe")

_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_P_VALUE = re.compile(r"\bp\s*([<>=≤])\s*(0?\.\d+)", re.IGNORECASE)
_NOT_SIGNIFICANT = re.compile(
    r"\b(?:no|not|nor|without)\b[^.;]{0,40}\b(?:significan|differ|associat|effect)", re.IGNORECASE
)
_WORDS = [
    re.compile(rf"\b(?:{words})", re.IGNORECASE)
    for words in (
        "no|not|nor|neither|without",
        "significan|associat|effective|predict|correlat",
        "increas|improv|higher|better|more|greater",
        "decreas|reduc|lower|fewer|less",
        "similar|comparable|unchanged|alike|equal",
        "may|might|could|suggest|trend|tend|possibl",
        "however|although|whereas|while|but|only|except|subgroup",
    )
]


def cleaned_decision(text: str) -> str | None:
    """As the paper's public code cleans a reply; None = "unknown", which it drops from the denominator.

    In small letters and cut at the first full stop, the text is searched for "yes", then "no", then "maybe", anywhere:
    so "unknown" and "cannot tell" become "no".
    """
    start = text.lower().partition(".")[0]
    return next((label for label in DECISIONS if label in start), None)


def read_decision(text: str) -> str | None:
    """The one decision that stands as a word before the first full stop; None where none or several do."""
    named = set(re.findall(r"\w+", text.lower().partition(".")[0])) & set(DECISIONS)
    return named.pop() if len(named) == 1 else None


class DecisionClassifier:
    """Decides from the first hit's results by a logistic regression on some twenty hand-made features.

    Features: negations, words of effect, equality, doubt and contrast, p values, of the last paragraph (or of the later
    half, where the text has one only); and the first word of the question. It knows nothing of medicine and does not
    know which of several results was asked for: a floor for readers.
    """

    def __init__(self, retriever: Retriever):
        self.retriever = retriever
        self._model: Any = None

    def fit(self, corpus: Corpus) -> "DecisionClassifier":
        """Learn from dev questions and their gold documents.

        Raises:
            ValueError: A question is a test row.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        require_side(corpus, "dev")
        texts = {document.id: document.text for document in corpus.documents}
        judged = [query for query in corpus.queries if corpus.gold_documents.get(query.id)]
        rows = [features(query.text, texts[next(iter(corpus.gold_documents[query.id]))]) for query in judged]
        labels = [corpus.answers[query.id][0] for query in judged]
        self._model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)).fit(rows, labels)
        return self

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """One decision a query; no text where nothing was found."""
        found = self.retriever.retrieve(queries, 1)
        return [
            Answer(
                query_id=query.id,
                text=self._decide(query, hits[0].chunk.fields["text"]) if hits else "",
                hits=tuple(hits),
            )
            for query, hits in zip(queries, found, strict=True)
        ]

    def _decide(self, query: Query, text: str) -> str:
        return str(self._model.predict([features(query.text, text)])[0])


def features(question: str, text: str) -> list[float]:
    """What the classifier sees of a question and an abstract."""
    results = _results(text)
    values = [(sign, float(number)) for sign, number in _P_VALUE.findall(results)]
    small = sum(value <= 0.05 and sign != ">" for sign, value in values)
    counts = [len(pattern.findall(results)) for pattern in _WORDS]
    first = (re.findall(r"\w+", question.lower()) or [""])[0]
    asks = [
        first in words for words in (("is", "are", "was", "were"), ("do", "does", "did"), ("can", "could", "should"))
    ]
    no_effect = len(_NOT_SIGNIFICANT.findall(results))
    p_values = [small, len(values) - small, bool(values) and small == len(values), bool(values) and not small]
    return [float(value) for value in (*counts, no_effect, *p_values, *asks)]


def _results(text: str) -> str:
    """The last paragraph, or the later half of the sentences of a single one."""
    paragraphs = text.strip().split("\n")
    sentences = _SENTENCE.split(text)
    return paragraphs[-1] if len(paragraphs) > 1 else " ".join(sentences[len(sentences) // 2 :])
