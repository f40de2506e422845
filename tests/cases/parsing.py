"""JSON in replies: what is read, what is a named failure, and never a value that the model did not write."""

from rag_utils.llm import ParseFailure, parse_json

VEGA = {"answer": "Vega", "sources": [1, 2]}


def PAR_G01():
    """A code fence with a language."""
    assert parse_json('```json\n{"answer": "Vega", "sources": [1, 2]}\n```') == VEGA


def PAR_G02():
    """Brackets in the words after the object are no part of it."""
    assert parse_json('{"answer": "Vega", "sources": [1, 2]}\n\nSee [1] and {note}.') == VEGA


def PAR_G03():
    """Backticks inside a value stay there."""
    assert parse_json('{"answer": "use `sort` or ```uniq```"}') == {"answer": "use `sort` or ```uniq```"}


def PAR_G04():
    """A Python literal."""
    text = "{'answer': 'Vega', 'sure': True, 'note': None}"
    assert parse_json(text) == {"answer": "Vega", "sure": True, "note": None}


def PAR_G05():
    """Commas before closing brackets."""
    assert parse_json('{"answer": "Vega", "sources": [1, 2,],}') == VEGA


def PAR_G06():
    """An object that does not end is marked as cut off, not completed."""
    assert parse_json('{"answer": "Vega", "sources": [1, 2') == ParseFailure("cut off")


def PAR_G07():
    """Two different objects are ambiguous; the same object twice is not."""
    failure = parse_json('{"answer": "Vega"}\n{"answer": "Quill"}')
    assert isinstance(failure, ParseFailure) and failure.reason.startswith("ambiguous")
    assert parse_json('{"answer": "Vega"}\n{"answer": "Vega"}') == {"answer": "Vega"}


def PAR_G08():
    """Empty replies and refusals are named, without an exception."""
    read = [parse_json(text) for text in ("", "   ", "I cannot answer that.", None)]
    assert read == [ParseFailure("empty")] * 2 + [ParseFailure("no JSON object"), ParseFailure("empty")]


def PAR_G09():
    """A raw line end inside a string."""
    assert parse_json('{"answer": "line one\nline two"}') == {"answer": "line one\nline two"}


def PAR_G10():
    """Wrong shapes are refused with field and reason; a number written as text is one of them."""
    fields = {"answer": {"type": "string"}, "confidence": {"type": "number", "minimum": 0, "maximum": 1}}
    schema = {"type": "object", "properties": fields, "required": ["answer", "confidence"]}
    wrong = {
        '{"answer": "Vega", "confidence": "0.8"}': ("confidence", "number"),
        '{"answer": ["Vega"], "confidence": 0.8}': ("answer", "string"),
        '{"confidence": 0.8}': ("answer", "contain"),
        '{"answer": "Vega", "confidence": 80}': ("confidence", "1"),
    }
    for text, words in wrong.items():
        failure = parse_json(text, schema)
        assert isinstance(failure, ParseFailure) and all(word in failure.reason for word in ("schema", *words))
    assert parse_json('{"answer": "Vega", "confidence": 0.8}', schema) == {"answer": "Vega", "confidence": 0.8}


def PAR_G11():
    """NaN is no score."""
    failure = parse_json('{"score": NaN}')
    assert isinstance(failure, ParseFailure) and "float" in failure.reason


def PAR_G12():
    """A code fence without a language, with words around it."""
    assert parse_json('Here you go:\n```\n{"answer": "Vega", "sources": [1, 2]}\n```\nAnything else?') == VEGA


def PAR_G13():
    """Both kinds of quotes and words in one object."""
    text = '{"answer": "Vega", \'sure\': true, "note": None}'
    assert parse_json(text) == {"answer": "Vega", "sure": True, "note": None}


def PAR_G14():
    """A key given twice with two values is ambiguous."""
    failure = parse_json('{"answer": "Vega", "answer": "Quill"}')
    assert isinstance(failure, ParseFailure) and "ambiguous" in failure.reason and "answer" in failure.reason
