"""The answer without a language model: a whole sentence of a hit, with its place in the document."""

import pytest

from rag_utils.answering import ExtractiveAnswerer
from rag_utils.chunking import by_tokens, passage, whole
from rag_utils.indexing import LexicalIndex, stems
from rag_utils.retrieval import LexicalRetriever
from rag_utils.schema import Answerer, Document, Query

DOCUMENTS = [
    Document(
        id="a",
        title="Harbour",
        text="The pier was closed in May. Repairs cost nine crowns. A kite flew over the bay.",
        metadata={"source": "Bell"},
    ),
    Document(id="b", title="Mill", text="The mill burned down. Nobody was hurt.", metadata={"source": "Post"}),
]


class PrefersShort:
    """A stand-in for a cross-encoder."""

    def score_pairs(self, pairs):
        return [-float(len(text)) for _, text in pairs]


@pytest.mark.parametrize("chunks", [whole(DOCUMENTS), by_tokens(DOCUMENTS)], ids=["whole", "with a header"])
def test_the_answer_is_the_sentence_that_fits(chunks):
    answerer = ExtractiveAnswerer(LexicalRetriever(LexicalIndex(chunks, tokenizer=stems, idf="lucene")), k=2)
    assert isinstance(answerer, Answerer)
    (answer,) = answerer.answer([Query(id="q", text="What did the repairs of the pier cost?")])
    assert answer.text in ("Repairs cost nine crowns.", "The pier was closed in May.")
    sentence = answer.hits[0].chunk
    assert DOCUMENTS[0].text[sentence.start : sentence.end] == answer.text and sentence.document_id == "a"


def test_a_reranker_chooses_among_all_sentences():
    answerer = ExtractiveAnswerer(LexicalRetriever(LexicalIndex(whole(DOCUMENTS))), k=2, reranker=PrefersShort())
    assert [a.text for a in answerer.answer([Query(id="q", text="the mill the pier")])] == ["Nobody was hurt."]


def test_no_hit_gives_no_text():
    answerer = ExtractiveAnswerer(LexicalRetriever(LexicalIndex(whole(DOCUMENTS))))
    (answer,) = answerer.answer([Query(id="q", text="zeppelin")])
    assert answer.text == "" and answer.hits == ()


@pytest.mark.parametrize("cut", [whole, by_tokens, lambda d: by_tokens(d, size=18, overlap=4, reserve_metadata=False)])
def test_a_passage_is_the_documents_own_words(cut):
    texts = {d.id: d.text for d in DOCUMENTS}
    for chunk in cut(DOCUMENTS):
        assert passage(chunk) == texts[chunk.document_id][chunk.start : chunk.end]
