"""Hashed words and letter runs: known hashes, and scikit-learn's own buckets where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from lazaretto.models.hashed_ngrams import count_buckets, letter_runs, murmur3, words_and_pairs

TEXTS = ["Send the keys to a@b.example!", "", "x", "ab 漢字 naïve  Zürich\n\tkeys keys keys", "don't  stop 42_ok"]


def test_hashes_are_those_of_the_reference_implementation():
    found = murmur3(["", "a", "hello", "hello, world", "The quick brown fox jumps over the lazy dog"])
    assert found.view(np.uint32).tolist() == [0, 0x3C2569B2, 0x248BFA47, 0x149BBB7F, 0x2E4FF723]


def test_short_words_count_once():
    assert list(letter_runs("a bc")) == [" a ", " bc", "bc ", " bc "]
    assert words_and_pairs("Send the keys") == ["Send", "the", "keys", "Send the", "the keys"]


@pytest.mark.parametrize("text", TEXTS)
def test_buckets_are_those_of_scikit_learn(text):
    vectorizers = pytest.importorskip("sklearn.feature_extraction.text", reason="compares with scikit-learn")
    shared = {"n_features": 2**17, "alternate_sign": False, "norm": None}
    words = vectorizers.HashingVectorizer(ngram_range=(1, 2), token_pattern=r"\b\w+\b", **shared)
    letters = vectorizers.HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **shared)
    for counter, parts in ((words, words_and_pairs), (letters, letter_runs)):
        wanted = counter.transform([text.lower()])
        wanted.sort_indices()
        buckets, often = count_buckets(parts(text.lower()), 2**17)
        assert buckets.tolist() == wanted.indices.tolist()
        assert often.tolist() == wanted.data.tolist()
