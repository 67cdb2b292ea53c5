"""What variant=paper starts from, against the papers' own numbers."""

from __future__ import annotations

import pytest

from duotone.config import RunConfig
from duotone.methods import METHODS
from duotone.methods.feddva.dual_vae import DualVAE
from duotone.methods.printed import _PRINTED, printed_settings, printed_training
from duotone.runs.plan import plan_run
from duotone.runs.published import published_share, rounds_text
from duotone.types import DataInfo


def as_published(method, data="mnist", **settings):
    return {"data": data, "method": {"name": method, "variant": "paper", **settings}}


@pytest.mark.parametrize(
    ("data", "rounds", "epochs", "batch"),
    [("mnist", 200, 5, 10), ("cifar10", 400, 30, 32), ("digits5", 400, 10, 10)],
)
def test_fedcd_has_the_rows_of_table_5_1(data, rounds, epochs, batch):
    found = printed_settings(as_published("fedcd", data))
    assert found["rounds"] == rounds
    assert (found["method"]["epochs"], found["method"]["batch_size"]) == (epochs, batch)
    assert (found["method"]["lr"], found["method"]["lr_decay_every"]) == (0.005, 50)


def test_feddva_has_appendix_h_and_larger_codes_to_classify():
    found = printed_settings(as_published("feddva"))
    assert found["rounds"] == 200
    assert found["method"]["epochs"] == 5
    assert found["method"]["batch_size"] == 256
    assert found["method"]["lr"] == 0.001
    assert (found["method"]["shared_dim"], found["method"]["xi"]) == (4, 32)
    tuned = printed_settings(as_published("feddva", classify="tune"))["method"]
    assert (tuned["shared_dim"], tuned["local_dim"], tuned["xi"]) == (8, 8, 64)


def test_fedvc_has_section_6_3_2_and_no_number_of_rounds():
    found = printed_settings(as_published("fedvc", "digits5"))
    assert "rounds" not in found
    assert printed_training(as_published("fedvc")) is None
    own = found["method"]
    assert (own["lr"], own["batch_size"], own["epochs"]) == (0.005, 10, 2)
    assert (own["concepts"], own["dimensions"], own["iota"], own["kappa"]) == (10, 10, 0.1, 0.05)


@pytest.mark.parametrize(
    ("method", "data", "half_epochs", "lr", "latent"),
    [
        ("padpaf", "mnist", 300, 0.001, 128),
        ("padpaf", "celeba64", 800, 0.001, 256),
        ("padpaf-vae", "mnist", 100, 0.001, 128),
        ("ditto-gan", "mnist", 120, 0.001, 128),
    ],
)
def test_padpaf_has_the_numbers_of_its_appendices(method, data, half_epochs, lr, latent):
    found = printed_settings(as_published(method, data))
    assert found["rounds"] * found["method"]["epochs"] * 2 == half_epochs
    assert (found["method"]["lr"], found["method"]["content_dim"]) == (lr, latent)
    assert found["method"]["server_lr"] == 10 * lr
    if method != "padpaf-vae":  # features of the discriminators: 64, and 128 for faces
        assert (found["method"]["blocks"], found["method"]["width"]) == ("residual", latent // 2)


def test_padpaf_on_photographs_has_other_rates_and_no_number_of_rounds():
    values = as_published("padpaf", "cifar10")
    found = printed_settings(values)
    assert printed_training(values) is None
    assert (found["method"]["lr"], found["method"]["server_lr"]) == (0.0003, 0.003)


def test_content_style_has_three_hundred_epochs_at_a_fixed_rate():
    assert printed_settings(as_published("content-style", "digits5")) == {
        "rounds": 300,
        "method": {"epochs": 1, "lr": 0.001, "lr_decay": 1.0},
    }


@pytest.mark.parametrize("name", _PRINTED)
def test_printed_settings_are_settings_of_the_method(name):
    found = printed_settings(as_published(name))["method"]
    METHODS.load(name).Config(variant="paper", **found)


def test_nothing_is_printed_for_a_method_that_is_not_as_published():
    assert printed_settings({"data": "mnist", "method": {"name": "fedcd"}}) == {}
    assert printed_settings({"data": "mnist", "method": "fedcd"}) == {}
    assert printed_settings({"method": {"name": "fedavg", "variant": "paper"}}) == {}


def planned(*, clients=3, **settings):
    small = {"scheme": "iid", "clients": clients, "max_train": 20, "max_test": 10}
    values = {"data": "digits", "partition": small, "model": "thesis-cnn", **settings}
    return plan_run(values).config


@pytest.mark.parametrize("name", ["fedcd", "fedvc"])
def test_ten_members_are_drawn_or_all_if_there_are_fewer(name):
    method = {"name": name, "variant": "paper"}
    assert planned(method=method).sampled == 3
    assert planned(method=method, clients=15).sampled == 10


def test_what_the_user_sets_comes_before_what_is_printed():
    config = planned(method={"name": "fedcd", "variant": "paper", "lr": 0.1}, sampled=2)
    assert (config.rounds, config.method["lr"], config.method["batch_size"]) == (200, 0.1, 10)


def test_a_run_says_which_share_of_the_published_training_it_is():
    """20 of 200 rounds with 2 of 5 epochs are 4 % of it."""
    method = {"name": "fedcd", "variant": "paper", "epochs": 2}
    config = planned(method=method, sampled=2, scale=0.1)
    assert (config.rounds, config.rounds_made) == (200, 20)
    assert published_share(config) == pytest.approx(0.04)
    assert rounds_text(config) == "20 of 200 rounds (scale 0.1), 4 % of the published training"


def test_a_run_of_its_own_makes_no_claim_about_a_paper():
    config = RunConfig(data="digits", rounds=30, method={"name": "fedavg", "epochs": 2})
    assert published_share(config) is None
    assert rounds_text(config) == "30 rounds"


def test_the_paper_s_encoders_and_decoder_have_four_convolutions():
    feddva = METHODS.load("feddva")
    data = DataInfo((1, 28, 28), "classes", 10)

    def convolutions(variant):
        model = feddva(feddva.Config(variant=variant), lambda _: None).build(data)
        assert isinstance(model, DualVAE)
        names = [name for name, tensor in model.named_parameters() if tensor.dim() == 4]
        parts = ("encoder_z", "encoder_c", "decoder")
        return [sum(name.startswith(part) for name in names) for part in parts]

    assert convolutions("paper") == [4, 4, 4]
    assert convolutions("duotone") == [3, 3, 0]
