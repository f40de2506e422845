"""A folder of files of every kind, made here by hand, goes all the way to an answer; what cannot be read is named."""

import json
import os
import zipfile

import pytest

from rag_utils.answering import ExtractiveAnswerer
from rag_utils.chunking import by_sentences
from rag_utils.corpora import load_corpus
from rag_utils.indexing import LexicalIndex, stems
from rag_utils.retrieval import LexicalRetriever
from rag_utils.schema import Query

LOCK = f"/ID[<00><00>]/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<{'ab' * 32}>/U<{'cd' * 32}>>>"
"""Encryption that the empty password does not open (nor any other: the keys are made up)."""


def pdf(*pages, about="", trailer=""):
    """Of each page its lines, in Helvetica from the top down; `about` = entries of the document's own information."""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>"]
    objects += ["<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", f"<<{about}>>"]
    for n, lines in enumerate(pages):
        drawn = "BT /F 11 Tf 13 TL 40 780 Td " + " ".join(f"({line}) '" for line in lines) + " ET"
        box = "/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R/Contents {6 + 2 * n} 0 R{box}>>")
        objects.append(f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream")
    body, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj{one}endobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    n = len(objects) + 1
    end = f"trailer<</Root 1 0 R/Info 4 0 R/Size {n}{trailer}>>\nstartxref\n{len(body)}\n%%EOF"
    return f"{body}xref\n0 {n}\n0000000000 65535 f \n{table}{end}".encode()


def docx(path, *paragraphs, about=""):
    """A Word file of (style, text) paragraphs and a table of one row; `about` = its core properties."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    types = f'<Override PartName="/word/document.xml" ContentType="{main}"/>'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    cells = "".join(f"<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>" for text in ("roof", "copper"))
    body += f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    styles = f'<w:style w:type="paragraph" w:styleId="Heading1" xmlns:w="{word}"><w:name w:val="heading 1"/></w:style>'
    kinds = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types">{kinds}{types}</Types>')
        relation = f'<Relationship Id="r1" Type="{office}" Target="word/document.xml"/>'
        file.writestr("_rels/.rels", f'<Relationships xmlns="{package}/relationships">{relation}</Relationships>')
        file.writestr("word/document.xml", f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>')
        file.writestr("word/styles.xml", f'<w:styles xmlns:w="{word}">{styles}</w:styles>')
        if about:
            spaces = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
            file.writestr(
                "docProps/core.xml", f"<?xml version='1.0'?><coreProperties {spaces}>{about}</coreProperties>"
            )


HTML = """<!doctype html><html><head><title>Bridge
 news</title><meta property="article:published_time" content="2024-05-03T10:00:00Z"><style>p {color: red}</style></head>
<body><nav>Home | The lion bridge in one sentence</nav><h1>The bridge</h1><p>The <b>lion</b> bridge
was painted green.<br>Nobody minded.</p><ul><li>one<li>two</ul>
<table><tr><td>year</td><td>cost</td></tr><tr><td>1</td><td>2</td></tr></table><pre>a = 1
b = 2</pre><script>var hidden = "<p>no</p>"</script><!-- no --><footer>Imprint</footer></body></html>"""
MARKDOWN = """---
title: The ferry
date: 2023-02-01
---
# Timetable

The *last* ferry leaves the
[island](https://example.org) at nine.

| day | boats |
|-----|-------|
| Sun | 2     |
"""


@pytest.fixture
def folder(tmp_path):
    """One file of each kind, the text file in a folder below."""
    root = tmp_path / "papers"
    (root / "letters").mkdir(parents=True)
    about = "/Title(Yearly report)/CreationDate(D:20240131235959-05'00')"
    lines = [
        "Report",
        "The orchard was sold by the old",
        "Duchess of Arden to a baker. He hand-",
        "ed over bread.",
        "End",
    ]
    (root / "report.pdf").write_bytes(pdf(lines, [], ["Page two."], about=about))
    (root / "bridge.html").write_text(HTML, encoding="utf-8")
    (root / "ferry.md").write_text(MARKDOWN, encoding="utf-8")
    (root / "letters" / "aunt.txt").write_bytes(b"\xef\xbb\xbfDear all,\r\nmy parrot speaks Latin.\r\n")
    paragraphs = ("Heading1", "Minutes"), ("Normal", "The council chose a copper roof.")
    docx(root / "minutes.docx", *paragraphs, about="<dcterms:created>2022-11-30T09:00:00Z</dcterms:created>")
    return root


def test_what_becomes_of_each_kind(folder):
    corpus = load_corpus(folder, strict=True)
    assert (corpus.name, corpus.where, corpus.queries, corpus.dropped) == ("papers", "folder papers", [], {})
    found = {document.id: document for document in corpus.documents}
    assert list(found) == ["bridge.html", "ferry.md", "letters/aunt.txt", "minutes.docx", "report.pdf"]
    assert [document.title for document in found.values()] == [
        "Bridge news",
        "The ferry",
        "aunt",
        "Minutes",
        "Yearly report",
    ]
    days = [document.metadata.get("published_at") for document in found.values()]
    assert days == ["2024-05-03", "2023-02-01", None, "2022-11-30", "2024-01-31"]
    assert all(document.metadata["path"] == id_ for id_, document in found.items())
    bridge = "The bridge\n\nThe lion bridge was painted green.\nNobody minded.\n\n"
    assert found["bridge.html"].text == bridge + "one\ntwo\n\nyear cost\n\n1 2\n\na = 1\nb = 2"
    assert found["ferry.md"].text == "Timetable\n\nThe last ferry leaves the island at nine.\n\nday boats\n\nSun 2"
    assert found["letters/aunt.txt"].text == "Dear all,\nmy parrot speaks Latin."
    assert found["minutes.docx"].text == "Minutes\n\nThe council chose a copper roof.\n\nroof copper"
    assert found["report.pdf"].text == (
        "Report\nThe orchard was sold by the old Duchess of Arden to a baker. He handed over bread.\nEnd\nPage two."
    )
    assert found["report.pdf"].metadata["pages_without_text"] == 1


@pytest.mark.parametrize(
    ("question", "answer", "where"),
    [
        ("Who sold the orchard?", "The orchard was sold by the old Duchess of Arden to a baker.", None),
        ("What colour is the lion bridge?", "The lion bridge was painted green.", None),
        (
            "When does the last ferry leave?",
            "The last ferry leaves the island at nine.",
            {"title": {"$in": ["The ferry"]}},
        ),
        (
            "Which roof did the council choose?",
            "The council chose a copper roof.",
            {"published_at": {"$lte": "2022-12-31"}},
        ),
        ("What does the parrot speak?", "my parrot speaks Latin.", {"path": {"$eq": "letters/aunt.txt"}}),
    ],
)
def test_all_the_way_to_an_answer(folder, question, answer, where):
    chunks = by_sentences(load_corpus(folder).documents)
    retriever = LexicalRetriever(LexicalIndex(chunks, tokenizer=stems, idf="lucene"))
    (found,) = ExtractiveAnswerer(retriever).answer([Query(id="q", text=question, where=where)])
    assert answer in found.text


def test_what_cannot_be_read_is_named_and_counted(folder):
    bad = {
        "cut.pdf": pdf(["Whole."])[:120],
        "empty.md": b"",
        "latin.txt": "Grüße".encode("latin-1"),
        "letters/locked.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "locked.pdf": pdf(["Secret."], trailer=LOCK),
        "no_words.html": b"<html><title>Only a title</title><body><img src='x.png'></body></html>",
        "not_word.docx": b"PK, but no archive",
        "photo.png": b"\x89PNG",
        "scan.pdf": pdf([], []),
    }
    for name, data in bad.items():
        (folder / name).write_bytes(data)
    corpus = load_corpus(folder)
    assert len(corpus.documents) == 5
    assert corpus.dropped == {
        "broken or unreadable file": 3,
        "empty file": 1,
        "password-protected": 2,
        "no text in the file": 1,
        "not a PDF, HTML, Markdown, text or Word file": 1,
        "no text layer: scanned, so it needs OCR first": 1,
    }
    said = dict(problem.split(": ", 1) for problem in corpus.problems)
    assert list(said) == [f"papers/{name}" for name in sorted(bad)]
    assert said["papers/locked.pdf"] == said["papers/letters/locked.docx"] == "password-protected"
    assert said["papers/not_word.docx"] == "broken or unreadable file (BadZipFile: File is not a zip file)"
    assert "3 x broken or unreadable file" in str(corpus) and str(folder) not in str(corpus.problems)
    with pytest.raises(ValueError, match=r"papers/cut\.pdf: broken or unreadable file"):
        load_corpus(folder, strict=True)


def test_no_date_is_made_up(folder):
    """Neither the file system's, nor one of a date that names no day: this one is reported."""
    os.utime(folder / "letters" / "aunt.txt", (0, 0))
    before = load_corpus(folder)
    os.utime(folder / "letters" / "aunt.txt", (10**9, 10**9))
    assert load_corpus(folder).fingerprint == before.fingerprint
    (folder / "ferry.md").write_text("---\ndate: last spring\n---\nBoats.", encoding="utf-8")
    corpus = load_corpus(folder)
    assert corpus.dropped == {"unreadable date": 1} and "papers/ferry.md: unreadable date" in corpus.problems[0]
    (ferry,) = (document for document in corpus.documents if document.id == "ferry.md")
    assert (ferry.text, ferry.title, dict(ferry.metadata)) == (
        "Boats.",
        "ferry",
        {"path": "ferry.md", "title": "ferry"},
    )


def test_questions_may_lie_beside_the_files(folder):
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "Who?"}), encoding="utf-8")
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tletters/aunt.txt\t1\n", encoding="utf-8")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "note.txt").write_text("x", encoding="utf-8")
    corpus = load_corpus(folder, split="all")
    assert corpus.gold_documents == {"q": ("letters/aunt.txt",)} and corpus.unanswerable() == []
    assert len(corpus.documents) == 5 and corpus.dropped == {}


def test_a_folder_in_beir_layout_stays_one(folder):
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "1", "text": "x"}), encoding="utf-8")
    assert [document.id for document in load_corpus(folder).documents] == ["1"]


def test_a_folder_without_documents(tmp_path):
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    with pytest.raises(FileNotFoundError, match="BEIR layout, or of PDF"):
        load_corpus(tmp_path)


def test_html_in_the_encoding_it_declares(tmp_path):
    page = '<meta charset="iso-8859-1"><main><p>Grüße</p></main><p>not of the article</p>'
    (tmp_path / "old.html").write_bytes(page.encode("latin-1"))
    (tmp_path / "plain.html").write_bytes("<p>Grüße</p>".encode())
    assert [document.text for document in load_corpus(tmp_path).documents] == ["Grüße"] * 2


def test_markdown_between_two_rules_is_text(tmp_path):
    (tmp_path / "a.md").write_text("---\nNo front matter\n---\nrest", encoding="utf-8")
    assert load_corpus(tmp_path).documents[0].text == "No front matter\n\nrest"
