"""Dates as files and people write them, in one form inside: the ISO day."""

import re
from datetime import date, datetime
from functools import lru_cache

_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?"
_ZONE = r" ?(?:Z|UTC|GMT|[ECMP][SD]T|CES?T|BST|[+-]\d{2}(?::?\d{2})?)"
_ISO = re.compile(rf"(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}})(?:[T ]{_TIME}(?:{_ZONE})?)?")
_WRITTEN = re.compile(r"(?=.*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(?=.*\b\d{4}\b)", re.IGNORECASE)


def iso_day(value: object) -> str | None:
    """The day as `YYYY-MM-DD`; None for anything that does not name one whole day.

    Args:
        value: A date, a datetime (also pandas'), or text: ISO 8601, followed by a time and zone or nothing, or with the
            month's English name and a four-digit year ("October 7, 2023", "7 Oct 2023"). "03/04/2024" names two days,
            "October 2023" none, so neither is read. The day is the one written: there is no time-zone conversion (as
            in Multi-Meta-RAG's code).
    """
    if isinstance(value, date):
        return value.isoformat()[:10] if value == value else None  # pandas' NaT is a date that differs from itself
    return _day_of_text(value.strip()) if isinstance(value, str) else None


def published(value: object) -> dict[str, str]:
    """Metadata of a publication date: `published_at` = the ISO day, `published_time` = the whole ISO text if timed.

    Raises:
        ValueError: There is a value, but it names no day; the message says how to write one.
    """
    if value is None or value != value or not str(value).strip():
        return {}
    day = iso_day(value)
    if day is None:
        raise ValueError(f"unreadable date {value!r} (write YYYY-MM-DD)")
    text = value.isoformat() if isinstance(value, date) else str(value).strip()
    if isinstance(value, datetime) and value.tzinfo is None:
        text += "+00:00"  # `datasets` turns ISO text into timestamps in UTC, without saying so
    timed = "T" in text and _ISO.fullmatch(text)
    return {"published_at": day, "published_time": text} if timed else {"published_at": day}


@lru_cache(maxsize=1 << 16)
def _day_of_text(text: str) -> str | None:
    from dateutil import parser

    found = _ISO.fullmatch(text)
    try:
        if found:
            return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
        if not _WRITTEN.match(text):
            return None
        # The parser fills what is missing from its default: a day that depends on the default was not written.
        one, two = (parser.parse(text, default=datetime(2000, 1, day)).date() for day in (1, 2))
    except (ValueError, OverflowError):
        return None
    return one.isoformat() if one == two else None
