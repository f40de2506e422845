"""Cases of the area chunking."""

import time

import pytest

from rag_utils.chunking import by_sentences, by_tokens, sentences
from rag_utils.schema import Document


def words(text):
    return len(text.split())


def packed(sentence_list, size, overlap):
    """Numbers of the sentences in each chunk."""
    text = " ".join(sentence_list)
    chunks = by_tokens([Document(id="d", text=text)], size=size, overlap=overlap, count_tokens=words)
    return [[n for n, one in enumerate(sentence_list) if one in text[c.start : c.end]] for c in chunks]


def bodies(text, size):
    chunks = by_tokens([Document(id="d", text=text)], size=size, overlap=0, count_tokens=words)
    return [text[chunk.start : chunk.end] for chunk in chunks]


def CHU_G01():
    """A sentence that fills the overlap exactly opens the next chunk."""
    found = packed(["a1 a2 a3 a4 a5.", "b1 b2 b3 b4 b5.", "c1 c2 c3 c4 c5.", "d1 d2 d3 d4 d5."], size=10, overlap=5)
    assert found == [[0, 1], [1, 2], [2, 3]]


def CHU_G02():
    """A sentence above the limit is cut by words, none lost."""
    text = " ".join(f"w{n}" for n in range(25)) + "."
    assert [words(body) for body in bodies(text, 10)] == [10, 10, 5]
    assert " ".join(bodies(text, 10)) == text


def CHU_G03():
    """No endless loop between size - overlap and size."""
    start = time.perf_counter()
    eight = [" ".join(f"{letter}{n}" for n in range(8)) + "." for letter in "abc"]
    assert packed(eight, size=10, overlap=4) == [[0], [1], [2]]
    assert time.perf_counter() - start < 1


def CHU_G04():
    """An overlap as large as the size is refused."""
    with pytest.raises(ValueError, match="overlap"):
        by_tokens([Document(id="d", text="Any text.")], size=32, overlap=32)


def CHU_G05():
    """A size of zero is refused."""
    with pytest.raises(ValueError, match="size"):
        by_tokens([Document(id="d", text="Any text.")], size=0, overlap=0)


def CHU_G06():
    """Blank text has no chunks."""
    for text in ("", " ", "\n\n\t"):
        assert by_tokens([Document(id="d", text=text)], size=256) == []
        assert by_sentences([Document(id="d", text=text)]) == []


def CHU_G07():
    """Metadata that leaves no room is refused before any work."""
    counted = []

    def counting(text):
        counted.append(text)
        return words(text)

    documents = [
        Document(id="fine", text="Some text."),
        Document(id="full", text="More text.", title="one two three four five six seven eight nine ten"),
    ]
    with pytest.raises(ValueError, match=r"'full'.*metadata takes 11 of size=8"):
        by_tokens(documents, size=8, overlap=0, count_tokens=counting)
    assert not any("text" in text for text in counted)


def CHU_G08():
    """Equal texts get different ids, the same in every run."""
    documents = [Document(id=id_, text="Same words here.") for id_ in "pq"]
    ids = [chunk.id for chunk in by_tokens(documents)]
    assert len(set(ids)) == len(ids) == 2
    assert [chunk.id for chunk in by_tokens(documents)] == ids


def CHU_G09():
    """Titles and times do not end a sentence."""
    assert len(sentences("Dr. Vale met Ms. Orr at 5 p.m. on Friday. They left.")) == 2


def CHU_G10():
    """Three sentences fill a chunk, one is carried over."""
    found = packed([f"s{n} w x y." for n in range(5)], size=12, overlap=4)
    assert found == [[0, 1, 2], [2, 3, 4]]


def CHU_G11():
    """Cut by words, with another limit."""
    text = " ".join(f"v{n}" for n in range(17)) + "!"
    assert [words(body) for body in bodies(text, 6)] == [6, 6, 5]
    assert " ".join(bodies(text, 6)) == text
