from __future__ import annotations

from duotone.measures.exposure import Exposure, Named

NOBODY = Named(0.2, 0.2)


def made_exposure(informed, attacker=NOBODY):
    return Exposure("a", "b", 100, 400, 5, 0.9, 0.95, Named(1.0, 0.0), attacker, informed, NOBODY)


def test_a_source_is_found_if_it_is_named_clearly_more_often_for_its_own_samples():
    # Two standard errors of 0.3 − 0.2 are 2 √(0.21/100 + 0.16/400) = 0.1.
    assert made_exposure(Named(0.31, 0.2)).is_found
    assert not made_exposure(Named(0.29, 0.2)).is_found
    assert not made_exposure(Named(1.0, 1.0)).is_found, "who always says the same knows nothing"
    assert made_exposure(Named(0.2, 0.2), attacker=Named(0.9, 0.1)).is_found


def test_the_statement_never_promises_anonymity():
    lost = made_exposure(Named(0.8, 0.1)).statement
    assert "names it for 80% of them (10% of others' samples)" in lost
    assert lost.endswith("this is no anonymity.")
    kept = made_exposure(Named(0.2, 0.2)).statement
    assert kept.endswith("This is a measurement, no guarantee.")
    assert "label is read from 90% of them, from 95% of the originals" in kept
