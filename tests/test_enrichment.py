"""Streams against their libraries called text by text; what is kept, asked for, left out and pooled."""

import json
from collections import Counter

import numpy as np
import pytest

from rag_utils import provenance
from rag_utils.chunking import load_pipeline
from rag_utils.corpora import load_corpus
from rag_utils.encoders import bundled, load_embedder
from rag_utils.encoders.folders import find_model
from rag_utils.enrichment import (
    KEYBERT_PRESETS,
    TAG_SCHEMA,
    AcronymEnricher,
    EntityEnricher,
    KeyBERTEnricher,
    LLMTagEnricher,
    LLMTitleEnricher,
    YakeEnricher,
    add_fields,
    enrich,
    extract_phrases,
    leaks,
    metagen_pool,
)
from rag_utils.enrichment.acronyms import acronym_pairs
from rag_utils.enrichment.streams import ENTITY_TYPES
from rag_utils.enrichment.tags import TAG_FIELDS
from rag_utils.llm import LanguageModel
from rag_utils.schema import Chunk, Enricher, Reply

TEXTS = [document.text for document in load_corpus("builtin_abstracts", split="all").documents[:3]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_CACHE_DIR", str(tmp_path))


def chunks(texts, **metadata):
    return [
        Chunk(id=f"{n}", document_id=f"{n}", start=0, end=len(text), fields={"text": text}, metadata=metadata)
        for n, text in enumerate(texts)
    ]


class Letters:
    """Stands for an encoder and counts what it is asked."""

    revision = "letters"

    def __init__(self):
        self.seen = Counter()

    def __call__(self, texts):
        self.seen.update(texts)
        counts = np.array([[text.count(letter) + 0.1 for letter in "aehilnorst"] for text in texts], np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


class Known:
    """A stream of the first word, which counts its texts."""

    settings = "1"

    def __init__(self, field="known"):
        self.field, self.seen = field, []

    def __call__(self, texts):
        self.seen += texts
        return [tuple(text.split()[:1]) for text in texts]


class Told:
    """Stands for a model: gives these replies in turn and keeps the prompts."""

    def __init__(self, *replies):
        self.replies, self.prompts = list(replies), []

    def __call__(self, prompts):
        self.prompts += prompts
        said = [self.replies.pop(0) for _ in prompts]
        return [one if isinstance(one, Reply) else Reply(text=one, model="told") for one in said]


def live(said, settings=None):
    """A double with the whole interface of a model, for costs and keys."""
    settings = settings or {"schema": None, "max_tokens": 200}
    return LanguageModel(
        name="openai:double",
        revision="1",
        settings=settings,
        answers=lambda prompts: iter((i, said(prompt)) for i, prompt in enumerate(prompts)),
    )


def tags(**lists):
    return json.dumps({field: [] for field in TAG_FIELDS} | lists)


# Streams of the text itself


@pytest.mark.parametrize("name", ["pubmedqa", "natural_questions"])
def test_keybert_finds_what_the_library_finds_text_by_text(name):
    from keybert import KeyBERT
    from sentence_transformers import SentenceTransformer

    preset = KEYBERT_PRESETS[name]
    texts = [text[:150] for text in TEXTS[:2]]
    peer = KeyBERT(SentenceTransformer(str(find_model(bundled.MINILM).path), device="cpu"))
    options = {"keyphrase_ngram_range": preset["ngrams"], "stop_words": "english", "top_n": preset["top"]}
    options |= {"use_mmr": True, "diversity": preset["diversity"]} if preset["diversity"] else {}
    expected = [peer.extract_keywords(text, **options) for text in texts]
    scored = KeyBERTEnricher(load_embedder(batch_size=256, cache=False), **preset).scored(texts)
    assert [[p for p, _ in own] for own in scored] == [[p for p, _ in own] for own in expected]
    for text, own in zip(texts, scored, strict=True):
        document, *vectors = peer.model.embed([text, *(phrase for phrase, _ in own)])
        assert [score for _, score in own] == pytest.approx([vector @ document for vector in vectors], abs=1e-5)


def test_candidates_of_all_texts_are_embedded_once_also_in_later_calls():
    embedder = Letters()
    enricher = KeyBERTEnricher(embedder, ngrams=(1, 2), top=2)
    first, second = "red kite near harbour", "harbour boat near the red kite"
    both = enricher([first, second])
    assert set(embedder.seen.values()) == {1}
    assert embedder.seen.keys() >= {first, second, "red kite", "kite near", "kite harbour"} - {
        "kite harbour",
        "kite near",
    }
    assert enricher([second, first]) == both[::-1] and set(embedder.seen.values()) == {1}


def test_presets_are_the_papers():
    assert KEYBERT_PRESETS["squad"] == KEYBERT_PRESETS["pubmedqa"] == {"ngrams": (1, 3), "top": 10, "diversity": 0.9}
    assert KEYBERT_PRESETS["paper text"]["top"] == KEYBERT_PRESETS["natural_questions"]["top"] == 1


def test_yake_finds_what_the_library_finds():
    import yake

    expected = [yake.KeywordExtractor(lan="en", n=3, dedup_lim=0.9, top=2).extract_keywords(text) for text in TEXTS]
    assert YakeEnricher(top=2)(["", *TEXTS]) == [(), *(tuple(phrase for phrase, _ in own) for own in expected)]


def test_entities_are_those_of_the_whole_pipeline():
    nlp = load_pipeline()
    expected = []
    for text in TEXTS:
        names = Counter(entity.text for entity in nlp(text).ents if entity.label_ in ENTITY_TYPES)
        expected.append(tuple(name for name, _ in names.most_common(3)))
    assert EntityEnricher(nlp)(TEXTS) == expected
    assert any(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use magnetic resonance imaging (MRI) here.", [("magnetic resonance imaging", "MRI")]),
        ("Use MRI (magnetic resonance imaging) here.", [("magnetic resonance imaging", "MRI")]),
        ("End-stage renal disease (ESRD, n = 42) rose.", [("End-stage renal disease", "ESRD")]),
        ("Of blood urea nitrogen (BUN) and BUN; the nitrogen (BUN).", [("blood urea nitrogen", "BUN")]),
        (
            "deoxyribonucleic acid (DNA), messenger RNA (mRNA)",
            [("deoxyribonucleic acid", "DNA"), ("messenger RNA", "mRNA")],
        ),
        ("Points rose (SD 2.2) on the scale of distress (SD 2.1).", []),
        ("It fell (see below) at night (Table 1; P < .05), in 27 of 118 (22.9%).", []),
        ("The boats. Inside many rooms (BIMR) it rained.", []),
        ("", []),
    ],
)
def test_acronyms_with_their_long_forms(text, expected):
    assert acronym_pairs(text) == expected
    assert AcronymEnricher()([text]) == [tuple(f"{long} ({short})" for long, short in expected)]


# Streams that a language model writes


def test_one_reply_gives_four_fields_and_other_spellings_are_accepted():
    llm = Told('{"topics": ["tide"], "phrases": ["high  tide"], "synonyms": ["flood"], "achronyms": ["MHW"]}')
    (chunk,) = enrich(chunks(["The tide."]), [LLMTagEnricher(llm)], progress=False)
    assert len(llm.prompts) == 1
    expected = {"topics": "tide", "phrases": "high tide", "synonyms": "flood", "acronyms": "MHW"}
    assert chunk.fields == {"text": "The tide."} | expected


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Sure! The text is about the tide.", "no JSON object"),
        ('{"topics": ["tide", "eb', "cut off"),
        (Reply(text='{"topics": ["ti', model="told", error="truncated"), "truncated"),
        (Reply(text="", model="told", error="timeout"), "timeout"),
        ('{"title": "Tide"}', "none of topics, phrases, synonyms, acronyms"),
        ("", "empty"),
    ],
)
def test_a_failed_reply_gives_empty_fields_and_is_counted(reply, reason):
    enricher = LLMTagEnricher(Told(reply, tags(topics=["ebb"])))
    with pytest.warns(UserWarning, match="1 of 2 texts got nothing"):
        found = extract_phrases(chunks(["one", "two"]), [enricher], progress=False)
    assert found == {"topics": [(), ("ebb",)]} | {field: [(), ()] for field in TAG_FIELDS[1:]}
    assert enricher.failures == {"one": reason}
    assert any(record.get("stream") == "tags" and reason in record["what"] for record in provenance.recorded())


def test_slips_of_shape_are_read_and_counted():
    enricher = LLMTagEnricher(Told('{"topics": "tide, ebb", "phrases": [1, "a", "a"], "synonyms": null, "mood": 1}'))
    assert enricher.rows(["x"]) == [{"topics": ["tide", "ebb"], "phrases": ["a"], "synonyms": [], "acronyms": []}]
    slips = ["topics was text", "synonyms missing", "acronyms missing", "mood unknown"]
    assert enricher.slips == Counter(slips) and not enricher.failures


def test_the_schema_accepts_what_the_prompt_asks_for():
    assert set(TAG_SCHEMA["properties"]) == set(TAG_FIELDS)
    (prompt,) = LLMTagEnricher(Told(), domain="sailing").prompts(["The tide."])
    text = prompt.messages[-1][1]
    assert "expert in sailing" in text and "The tide." in text and all(f'"{field}"' in text for field in TAG_FIELDS)


def test_titles_lose_their_marks_and_failures_are_counted():
    replies = [
        '"Tides of the Bay"\nBy a sailor',
        "**Title: Ebb and Flood**",
        Reply(text="A long", model="", error="truncated"),
    ]
    enricher = LLMTitleEnricher(Told(*replies))
    assert enricher(["a", "b", "c"]) == [("Tides of the Bay",), ("Ebb and Flood",), ()]
    assert enricher.failures == {"c": "truncated"} and not enricher.slips


def test_the_language_model_is_left_out_of_large_corpora():
    llm = Told()
    with pytest.warns(UserWarning, match="3 documents are more than llm_max_docs = 2"):
        found = extract_phrases(chunks("abc"), [Known(), LLMTagEnricher(llm)], llm_max_docs=2, progress=False)
    assert found.keys() == {"known"} and not llm.prompts


def test_the_cost_is_shown_before_the_first_call(capsys):
    printed = []

    def said(prompt):
        printed.append(capsys.readouterr().out)
        return Reply(text=tags(), model="double")

    extract_phrases(chunks(["one", "two"]), [LLMTagEnricher(live(said))], progress=False)
    assert "tags: 2 calls of openai:double" in printed[0] and "at most 400 out" in printed[0]


# Kept on disk


def test_adding_a_stream_does_not_redo_the_others():
    first, second = Known(), Known("other")
    extract_phrases(chunks(["a b", "c d", "a b"]), [first], progress=False)
    found = extract_phrases(chunks(["a b", "c d", "e f"]), [first, second], progress=False)
    assert first.seen == ["a b", "c d", "e f"] == second.seen
    assert found == {"known": [("a",), ("c",), ("e",)], "other": [("a",), ("c",), ("e",)]}
    first.settings = "2"
    extract_phrases(chunks(["a b"]), [first], progress=False)
    extract_phrases(chunks(["a b"]), [first], cache=False, progress=False)
    assert first.seen[3:] == ["a b", "a b"]


def test_settings_tell_apart_what_differs():
    embedder, nlp = Letters(), load_pipeline()
    assert KeyBERTEnricher(embedder).settings != KeyBERTEnricher(embedder, top=3).settings
    assert KeyBERTEnricher(lambda texts: None).settings is None  # vectors of who knows what
    assert YakeEnricher().settings != YakeEnricher(top=2).settings
    assert EntityEnricher(nlp).settings != EntityEnricher(nlp, types=["ORG"]).settings
    one, other = live(None), live(None, {"schema": None, "max_tokens": 9})
    assert LLMTagEnricher(one).settings != LLMTagEnricher(other).settings
    assert LLMTagEnricher(one).settings != LLMTagEnricher(one, domain="law").settings
    assert LLMTagEnricher(Told()).settings is None


def test_failures_of_a_model_are_asked_again_and_good_replies_are_not():
    replies = {"bad": [Reply(text="", model="", error="timeout")], "good": []}
    asked = []

    def said(prompt):
        text = "bad" if "\nbad\n" in prompt.messages[-1][1] else "good"
        asked.append(text)
        return replies[text].pop() if replies[text] else Reply(text=tags(topics=[text]), model="")

    with pytest.warns(UserWarning, match="timeout"):
        extract_phrases(chunks(["good", "bad"]), [LLMTagEnricher(live(said))], progress=False)
    found = extract_phrases(chunks(["good", "bad"]), [LLMTagEnricher(live(said))], progress=False)
    assert sorted(asked) == ["bad", "bad", "good"]
    assert found["topics"] == [("good",), ("bad",)]


def test_wrong_use_is_said():
    with pytest.raises(ValueError, match="several enrichers fill the field 'known'"):
        extract_phrases(chunks("a"), [Known(), Known()])
    short = Known()
    short.__class__ = type("Short", (Known,), {"__call__": lambda self, texts: []})
    with pytest.raises(ValueError):
        extract_phrases(chunks("a"), [short], progress=False)


def test_no_chunks_and_no_enrichers():
    assert enrich([], [Known()], progress=False) == []
    assert extract_phrases([], [Known()], progress=False) == {"known": []}
    assert enrich(chunks("a"), []) == chunks("a")


def test_the_bar_counts_texts(capsys):
    extract_phrases(chunks(["a", "b", "a"]), [Known()])
    assert "known" in (shown := capsys.readouterr().err) and "2/2" in shown


def test_all_streams_fit_the_protocol():
    streams = [
        KeyBERTEnricher(Letters()),
        YakeEnricher(),
        AcronymEnricher(),
        LLMTagEnricher(Told()),
        LLMTitleEnricher(Told()),
    ]
    assert all(isinstance(stream, Enricher) for stream in streams)


# The pool

BAY = "Boats of the Bay Company left the harbour. In 1999 high water rose."


def test_the_pool_unites_and_names_streams_and_places():
    streams = {
        "keybert": [("boats bay", "harbour")],
        "entities": [("Bay Company", "HARBOUR.")],
        "tags": [("flood tide",)],
    }
    pool = metagen_pool([BAY], streams)
    (phrases,) = pool.phrases
    found = {p.text: (p.streams, p.span and BAY[slice(*p.span)]) for p in phrases}
    assert found == {
        "boats bay": (("keybert",), "Boats of the Bay"),
        "harbour": (("keybert", "entities"), "harbour"),
        "bay company": (("entities",), "Bay Company"),
        "flood tide": (("tags",), None),
    }
    none = dict.fromkeys(["short or a number", "in many texts", "nearly the same"], 0)
    assert pool.counts == {"given": 5, "different": 4, **none, "kept": 4}
    (chunk,) = add_fields(chunks([BAY]), {"pool": pool.texts()})
    assert chunk.fields["pool"] == "boats bay, harbour, bay company, flood tide"


def test_the_pool_drops_noise_by_rule():
    words = "alpha beta gamma delta"
    row = ("1999", "ab", "!!", "27 118", f"{words} epsilon", words, "Epsilon " + words, "beta")
    pool = metagen_pool([BAY], {"s": [row]})
    assert pool.texts() == [(f"{words} epsilon", "beta")]  # 4 words of 5 are 0.8
    assert pool.counts == {
        "given": 8,
        "different": 8,
        "short or a number": 4,
        "in many texts": 0,
        "nearly the same": 2,
        "kept": 2,
    }


def test_the_pool_drops_what_more_than_a_fifth_of_the_texts_have():
    streams = {"s": [("common", "fifth")] * 2 + [("common", f"own {letter}") for letter in "abcdefgh"]}
    pool = metagen_pool(list("abcdefghij"), streams)
    assert pool.texts()[0] == ("fifth",) and pool.counts["in many texts"] == 10
    assert metagen_pool(["a", "b"], {"s": [("one",), ("two",)]}).texts() == [("one",), ("two",)]  # in a small corpus


def test_the_pool_wants_phrases_for_each_text():
    with pytest.raises(ValueError):
        metagen_pool(["a", "b"], {"s": [("one",)]})
    assert metagen_pool([], {}).phrases == []


# Nothing comes from the gold answer


def test_a_planted_answer_reaches_no_stream():
    planted = chunks(["The boats left the harbour."], long_answer="Zanzibar monsoon", headings="Zanzibar")
    planted = add_fields(planted, {"title": [("Zanzibar monsoon",)]})
    llm, embedder = Told(tags(topics=["boats"]), "Boats"), Letters()
    streams = [KeyBERTEnricher(embedder), YakeEnricher(), AcronymEnricher(), LLMTagEnricher(llm), LLMTitleEnricher(llm)]
    found = extract_phrases(planted, streams, progress=False)
    assert "anzibar" not in str([found, llm.prompts, [*embedder.seen]])


def test_leaks_are_found_where_a_stream_saw_the_answer():
    texts, answers = [BAY, BAY], ["The monsoon season drove the boats", "yes"]
    honest = {"a": [("boats bay", "harbour"), ("high water",)]}
    assert leaks(texts, metagen_pool(texts, honest).texts(), answers) == []
    assert leaks(texts, [("harbour", "Monsoon season"), ("boats",)], answers) == [(0, "Monsoon season")]
