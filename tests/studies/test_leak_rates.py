from __future__ import annotations

import numpy as np
import pytest
from studies.leaks import simulate


@pytest.mark.slow
def test_where_nothing_can_be_read_one_run_in_twenty_says_otherwise():
    found = simulate("noise", 40)
    share = found["any question above its bar"]["share"]
    assert share < 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 40)
    assert found["client"]["network's 95 % point covers chance"] == 1
    assert found["client"]["linear's 95 % point covers chance"] == 1


@pytest.mark.slow
def test_a_planted_leak_is_found():
    found = simulate("planted leak", 40)
    assert found["client"]["linear reads"] == pytest.approx(0.37, abs=0.02)
    assert found["client"]["linear above its 95 % point"] >= 0.95
    assert found["any question above its bar"]["share"] >= 0.9
