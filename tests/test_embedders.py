from pathlib import Path

import numpy as np
import pytest

from lastro.embedders import build_embedder
from lastro.errors import ConfigError


def test_a_deterministic_vector_is_the_same_in_both_roles(tmp_path: Path):
    embedder = build_embedder("deterministic", cache_dir=tmp_path)
    as_query = embedder.embed(["ballast"], "query")
    assert np.array_equal(as_query, embedder.embed(["ballast"], "document"))


def test_an_unknown_embedder_is_refused_with_the_known_names(tmp_path: Path):
    with pytest.raises(ConfigError) as refused:
        build_embedder("word2vec", cache_dir=tmp_path)
    assert refused.value.remedy is not None
    assert "use-m3, deterministic" in refused.value.remedy
