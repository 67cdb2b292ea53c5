from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotone.measures.maps import (
    choose_rows,
    code_maps,
    comparable,
    is_alive,
    project_pca,
    project_tsne,
)


def latents(samples: int = 30, **codes: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    facts = {name: np.array(["x"] * samples) for name in ("group", "kind", "split")}
    found = {"shared": rng.normal(size=(samples, 4)), "local": np.zeros((samples, 0))} | codes
    client = np.array([f"c{i % 3}" for i in range(samples)])
    numbers = np.arange(samples)
    return {**facts, **found, "client": client, "label": numbers % 2, "index": numbers}


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    most=st.integers(1, 60),
    seed=st.integers(0, 5),
)
def test_every_client_is_shown_as_often_as_the_others_as_far_as_it_has_samples(sizes, most, seed):
    clients = np.repeat(np.arange(len(sizes)), sizes)
    chosen = choose_rows(clients, seed, most)
    assert len(chosen) == len(set(chosen.tolist())) == min(most, len(clients))
    counts = np.bincount(clients[chosen], minlength=len(sizes))
    for count, size in zip(counts, sizes, strict=True):
        assert count >= min(size, counts.max() - 1)


def test_the_same_seed_chooses_the_same_samples():
    clients = np.repeat(np.arange(5), 100)
    np.testing.assert_array_equal(choose_rows(clients, 1, 50), choose_rows(clients, 1, 50))
    assert not np.array_equal(choose_rows(clients, 1, 50), choose_rows(clients, 2, 50))


def test_pca_keeps_the_distances_of_a_flat_code():
    flat = np.random.default_rng(0).normal(size=(20, 2)) @ np.array([[3.0, 0, 0], [0, 1.0, 0]])
    projected, shares = project_pca(flat)
    np.testing.assert_allclose(
        np.linalg.norm(projected - projected[0], axis=1), np.linalg.norm(flat - flat[0], axis=1)
    )
    assert shares.sum() == pytest.approx(1)


def test_a_code_of_one_number_is_laid_on_a_line():
    projected, shares = project_pca(np.arange(5.0)[:, None])
    np.testing.assert_allclose(projected[:, 1], 0)
    assert shares.tolist() == [1.0]


def test_tsne_keeps_far_clusters_apart_and_is_the_same_for_the_same_seed():
    rng = np.random.default_rng(0)
    code = np.concatenate([rng.normal(size=(20, 5)), rng.normal(size=(20, 5)) + 50])
    found = project_tsne(code, 0)
    np.testing.assert_array_equal(found, project_tsne(code, 0))
    near = np.linalg.norm(found[:20] - found[:20].mean(axis=0), axis=1).max()
    assert np.linalg.norm(found[:20].mean(axis=0) - found[20:].mean(axis=0)) > near


def test_maps_show_each_part_there_is():
    rng = np.random.default_rng(0)
    both = code_maps(latents(local=rng.normal(size=(30, 2))), 0)
    assert [found.name for found in both] == ["PCA", "t-SNE"]
    for found in both:
        assert found.points["part"].to_list() == ["shared"] * 30 + ["local"] * 30
        assert found.points["client"].to_list()[:3] == ["c0", "c1", "c2"]
    alone = code_maps(latents(), 0)[0]
    assert set(alone.points["part"]) == {"shared"}
    assert set(alone.axes) == {"shared"}


def test_a_dead_or_broken_code_has_no_map():
    assert not is_alive(np.ones((4, 3)))
    assert not is_alive(np.zeros((4, 0)))
    assert not is_alive(np.array([[1.0], [np.nan]]))
    assert code_maps(latents(shared=np.ones((30, 4))), 0) == []


def test_codes_of_one_encoder_are_taken_where_clients_have_their_own():
    common = np.arange(30.0)[:, None]
    np.testing.assert_array_equal(comparable(latents(common_local=common), "local"), common)
    assert comparable(latents(), "local").shape == (30, 0)
