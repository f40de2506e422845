"""Ingestion: a folder of PDF, HTML, Markdown, text and Word files as rows of documents in plain text.

Markdown and Word become HTML first, so that one function decides what a block, a title and a date are.
"""

import re
from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import ZipFile

from rag_utils.corpora._draft import RowError
from rag_utils.corpora._sources import Rows

_NO_TEXT = "script style noscript template nav footer button select svg iframe".split()
_HEADINGS = "h1 h2 h3 h4 h5 h6".split()
_DATES = (
    'meta[property$=":published_time"], meta[name="date" i], meta[name="dc.date" i], [itemprop="datePublished"], '
    "time[pubdate]"
)
_BREAK = "\0"  # a line's end that collapsing white space leaves alone
_PARTED = "\ufffe"  # PDFium's mark, in place of hyphen and line's end, of a word that goes on in the next line
_FRONT_MATTER = re.compile(r"---[ \t\r]*\n(.*?)\n---[ \t\r]*(?:\n|\Z)", re.DOTALL)
_PDF_DAY = re.compile(r"(?:D:)?(\d{4})(\d\d)(\d\d).*", re.DOTALL)


def file_rows(folder: Path, apart: Collection[Path] = ()) -> Rows:
    """The files below a folder by path, but those `apart` and hidden ones; a RowError instead of what cannot be read.

    A record has `_id` and `path` (within the folder), `text`, `title` (the file's own, else its first heading, else its
    name), and `published_at` if the file itself names a date: what the file system says is the day of a copy.

    Of a PDF, lines are joined to paragraphs, halves of words at a line's end to words, and `pages_without_text` counts
    scanned and blank pages. Of HTML, the text of `<main>` is taken if there is one, never navigation, scripts and
    footers.
    """
    for path in _below(folder):
        if path not in apart:
            inside = path.relative_to(folder).as_posix()
            yield f"{folder.name}/{inside}", _record(path, inside)


def holds_documents(folder: Path) -> bool:
    """Whether there is a file of a kind that can be read."""
    return any(path.suffix.lower() in _READERS for path in _below(folder))


def _below(folder: Path) -> list[Path]:
    inside = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [folder / path for path in sorted(inside) if not path.startswith(".") and "/." not in path]


def _record(path: Path, inside: str) -> dict[str, Any] | RowError:
    read = _READERS.get(path.suffix.lower())
    if not read:
        return RowError("not a PDF, HTML, Markdown, text or Word file")
    try:
        data = path.read_bytes()
        record = read(data) if data else {}
    except RowError as error:
        return error
    except Exception as error:  # every library has kinds of its own for a broken file, and KeyError and the like
        return RowError(
            "broken or unreadable file", getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        )
    if not record.get("text"):
        return RowError("no text in the file" if data else "empty file")
    return {**record, "title": str(record["title"] or path.stem), "_id": inside, "path": inside}


def _pdf(data: bytes) -> dict[str, Any]:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(data)
    except PdfiumError as error:
        raise (RowError("password-protected") if "password" in str(error) else error) from None
    pages = [_unwrapped(page.get_textpage().get_text_range()) for page in document]
    if not any(pages):
        raise RowError("no text layer: scanned, so it needs OCR first")
    about, text = document.get_metadata_dict(), "\n".join(filter(None, pages))
    day = _PDF_DAY.sub(r"\1-\2-\3", about["CreationDate"])
    blank = pages.count("") or None
    return {"text": text, "title": about["Title"].strip(), "published_at": day, "pages_without_text": blank}


def _unwrapped(page: str) -> str:
    """A line goes on in the next one unless it is clearly shorter than the page's usual ones."""
    lines = [line.rstrip() for line in page.replace(_PARTED, f"{_PARTED}\n").splitlines()]
    usual = sorted(map(len, lines))[len(lines) * 3 // 4] if lines else 0
    text = "".join(line + (" " if len(line) >= usual * 3 / 4 else "\n") for line in lines)
    return re.sub(rf"{_PARTED}\s", "", text).strip()


def _html(data: bytes) -> dict[str, Any]:
    from bs4 import BeautifulSoup
    from bs4.builder import HTMLTreeBuilder

    soup = BeautifulSoup(data, "html.parser", from_encoding="utf-8")  # tried first; then what the page declares
    for tag in soup.find_all(_NO_TEXT):
        tag.decompose()
    titles = [" ".join(tag.get_text().split()) for tag in (soup.title, soup.find(_HEADINGS)) if tag]
    made = soup.select_one(_DATES)
    for line in [line for pre in soup.find_all("pre") for line in pre.find_all(string=True)]:
        line.replace_with(line.replace("\n", _BREAK))
    for tag in soup.find_all("br"):
        tag.replace_with(_BREAK)
    for tag in soup.select("td > p:only-child, th > p:only-child"):  # as Word has them
        tag.unwrap()
    for tag in soup.find_all(["td", "th"]):
        tag.append(" ")
    for tag in soup.find_all([*HTMLTreeBuilder.DEFAULT_BLOCK_ELEMENTS, "caption", "summary", "tr"]):
        tag.insert_before(_BREAK)
        tag.append(_BREAK)
    text = " ".join((soup.main or soup.body or soup).get_text().split())
    text = re.sub(r"\n{3,}", "\n\n", re.sub(f" ?{_BREAK} ?", "\n", text)).strip()
    day = made and (made.get("content") or made.get("datetime"))
    return {"text": text, "title": next(filter(None, titles), ""), "published_at": day}


def _markdown(data: bytes) -> dict[str, Any]:
    import yaml
    from markdown_it import MarkdownIt

    text = data.decode("utf-8-sig")
    front = _FRONT_MATTER.match(text)
    found = yaml.safe_load(front[1]) if front else None
    about = found if isinstance(found, dict) else {}  # two rules with text between them are no front matter
    body = text[front.end() :] if front and about else text
    page = _html(MarkdownIt("commonmark").enable("table").render(body).encode())
    return {**page, "title": about.get("title") or page["title"], "published_at": about.get("date")}


def _word(data: bytes) -> dict[str, Any]:
    import mammoth

    if data.startswith(b"\xd0\xcf\x11\xe0"):  # encrypted, it is no archive of XML but an older kind of container
        raise RowError("password-protected")
    page = _html(mammoth.convert_to_html(BytesIO(data)).value.encode())
    with ZipFile(BytesIO(data)) as parts:
        core = parts.read("docProps/core.xml") if "docProps/core.xml" in parts.namelist() else "<none/>"
    about = ElementTree.fromstring(core)
    title = about.findtext("{*}title", "").strip()
    return {**page, "title": title or page["title"], "published_at": about.findtext("{*}created")}


def _text(data: bytes) -> dict[str, Any]:
    return {"text": data.decode("utf-8-sig").replace("\r\n", "\n").strip(), "title": ""}


_READERS = {".pdf": _pdf, ".docx": _word, ".html": _html, ".htm": _html, ".md": _markdown, ".txt": _text}
