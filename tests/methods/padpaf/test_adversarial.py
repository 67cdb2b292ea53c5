from __future__ import annotations

import pytest
import torch

from duotone.methods.padpaf.adversarial import discriminator_loss, generator_loss


def test_discriminators_want_real_above_one_and_drawn_below_minus_one():
    real, drawn = torch.tensor([2.0, 0.5]), torch.tensor([-3.0, 0.0])
    # (0 + 0.5)/2 + (0 + 1)/2
    assert float(discriminator_loss(real, drawn)) == pytest.approx(0.75)


def test_the_generator_wants_high_scores():
    assert float(generator_loss(torch.tensor([2.0, -1.0]))) == pytest.approx(-0.5)
