from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from federations import make_population
from torch.nn.functional import cross_entropy

from duotone.federation.engine import MemoryStates, federate
from duotone.federation.jobs import client_randomness
from duotone.federation.protocols import Decodes
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.content_style.content_networks import ContentStyle, content_cnn_in
from duotone.methods.content_style.content_style import (
    ContentStyleConfig,
    ContentStyleFL,
    pushed,
    reconstruction,
    sharp_reconstruction,
)
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientState, DataInfo, RoundInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)
PLAIN = {"alpha": 0, "restyle": "none", "swap": 0, "push": 0, "noise": 0}


def make(**settings):
    return ContentStyleFL(ContentStyleConfig(**settings), as_network(cnn_bn))


# -- terms, worked by hand


def test_reconstruction_is_the_squared_or_absolute_error_of_pixels_from_minus_one_to_one():
    drawn = torch.tensor([[0.0, 0.5], [1.0, 1.0]])
    x = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    # differences in [−1, 1]: 1, 0, 2, 0
    assert float(reconstruction(drawn, x)) == pytest.approx((1 + 0 + 4 + 0) / 4)
    assert float(sharp_reconstruction(drawn, x)) == pytest.approx((1 + 0 + 2 + 0) / 4)


def test_a_manner_moves_by_deviations_to_where_the_loss_grows():
    manner = torch.tensor([[1.0, 10.0, 5.0], [3.0, 2.0, 5.0]])  # deviations 1, 4 and 0
    gradient = torch.tensor([[4.0, 0.75, 9.0], [0.0, 0.0, 1.0]])
    # In deviations the first gradient is (4, 3, 0), of length 5, so the move is √3 (4/5, 3/5, 0),
    # whose root mean square is 1; the second sample's loss grows in no direction that is common.
    step = math.sqrt(3)
    expected = torch.tensor([[1 + 2 * step * 0.8, 10 + 2 * step * 0.6 * 4, 5.0], [3.0, 2.0, 5.0]])
    far = torch.tensor([[2.0], [1.0]])
    assert torch.allclose(pushed(manner, gradient, far), expected)


def test_the_only_sample_of_a_batch_is_not_pushed():
    manner = torch.tensor([[1.0, 2.0]])
    assert torch.equal(pushed(manner, torch.ones(1, 2), torch.ones(1, 1)), manner)


# -- what is shared and what is local


@pytest.mark.parametrize(
    ("settings", "local"),
    [
        ({"variant": "paper"}, ("style.",)),
        ({"variant": "paper", "palette": "local"}, ("style.", "mapping.", "decoder.pixels.")),
        ({}, ("style.", "mapping.", "decoder.pixels.")),
        ({"palette": "shared"}, ("style.",)),
    ],
)
def test_the_style_encoder_stays_and_so_may_what_makes_pictures_of_its_codes(settings, local):
    method = make(**settings)
    shared, own = method.split(method.build(SMALL))
    assert all(name.startswith(local) for name in own)
    assert not any(name.startswith(local) for name in shared)
    for part in ("content.", "hidden.", "head.", "decoder.conv"):
        assert any(name.startswith(part) for name in shared)


def test_there_are_no_buffers():
    assert not list(make().build(SMALL).buffers())


# -- reductions


@pytest.mark.parametrize("variant", ["paper", "duotone"])
def test_without_its_terms_it_is_fedavg_of_the_content_network(variant):
    training = {"optimizer": "adam", "lr": 0.005, "lr_decay": 1, "batch_size": 8, "epochs": 1}
    ours = make(variant=variant, **PLAIN, **training)
    theirs = FedAvg(FedAvg.Config(**training), as_network(content_cnn_in))
    results = []
    for method in (ours, theirs):
        *_, last = federate(method, make_population(), rounds=3, states=MemoryStates())
        results.append(last.server.shared)
    assert results[1].keys() < results[0].keys()
    for name, tensor in results[1].items():
        assert torch.equal(results[0][name], tensor), name
    x = make_population().data("c3", "test").x
    with torch.inference_mode():
        models = [
            method.load(method.personal(*server_and_state(method, shared)), SMALL).eval()
            for method, shared in zip((ours, theirs), results, strict=True)
        ]
        scores = [m.predict(model, x) for m, model in zip((ours, theirs), models, strict=True)]
    assert torch.equal(*scores)


def server_and_state(method, shared):
    server = method.start(RoundInfo(0, 3, 0, SMALL))
    server = type(server)(shared, server.extra)
    return server, method.first_state(server, RoundInfo(3, 3, 0, SMALL))


# -- the loss


def loss_of(x, y, **settings):
    method = make(**settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = method.build(SMALL)
        value = method._loss(model, x, y)
    value.backward()
    return model, float(value.detach())


X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 3, 0, 1])


def test_the_paper_is_the_sum_of_both_losses():
    model, value = loss_of(X, Y, variant="paper", alpha=2.5)
    with torch.no_grad():
        drawn = model.draw(model.content(X), model.style(X))
        expected = cross_entropy(model(X), Y) + 2.5 * reconstruction(drawn, X)
    assert value == pytest.approx(float(expected), rel=1e-5)


def test_all_terms_are_added_with_their_weights():
    settings = {"alpha": 2.5, "swap": 3.0, "restyle": "none", "push": 0.0, "noise": 0.0}
    model, value = loss_of(X, Y, **settings)
    with torch.no_grad():
        content, manner = model.content(X), model.mapping(model.style(X))
        pixels = 2 * (model.decoder(content, manner) - X)
        swapped = model.decoder(content, torch.cat([manner[-1:], manner[:-1]]))
        classes = cross_entropy(model(X), Y) + 3.0 * cross_entropy(model(swapped), Y)
    assert value == pytest.approx(float(classes + 2.5 * pixels.square().mean()), rel=1e-4)


def test_swaps_train_what_is_asked_about_the_picture_and_not_what_draws_it():
    model, _ = loss_of(X, Y, **{**PLAIN, "swap": 1.0})
    for name, parameter in model.named_parameters():
        moves = parameter.grad is not None and bool(parameter.grad.any())
        # Biases before InstanceNorm have no effect.
        if name.endswith("weight"):
            assert moves == name.startswith(("content.", "hidden.", "head.")), name


def test_an_image_drawn_in_its_own_style_is_what_a_swap_of_equal_images_is():
    same = X[:1].expand(6, -1, -1, -1)
    model, value = loss_of(same, Y, **{**PLAIN, "swap": 1.0})
    with torch.no_grad():
        drawn = model.draw(model.content(same), model.style(same))
        expected = cross_entropy(model(same), Y) + cross_entropy(model(drawn), Y)
    assert value == pytest.approx(float(expected), rel=1e-4)


def test_pushed_styles_make_images_harder_to_classify():
    torch.manual_seed(0)
    model = make().build(SMALL)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(20):
        optimizer.zero_grad()
        cross_entropy(model(X), Y).backward()
        optimizer.step()
    with torch.no_grad():
        content, manner = model.content(X), model.mapping(model.style(X))
    losses = []
    for push in (0, 0.5):
        drawn = make(push=push)._hard_to_read(model, content, manner.clone(), Y)
        assert not drawn.requires_grad
        losses.append(float(cross_entropy(model(drawn), Y).detach()))
    assert losses[1] > losses[0]


def test_swaps_are_drawn_from_content_without_noise():
    given = []
    model = make().build(SMALL)
    model.decoder.register_forward_pre_hook(lambda _, x: given.append(x[0]))
    make(restyle="none", push=0)._loss(model, X, Y)
    reconstructed, swapped = given
    clean = model.content(X)
    assert torch.equal(swapped, clean)
    assert float((reconstructed - clean).detach().std()) > 0.5


@pytest.mark.parametrize("restyle", ["polarity", "colour", "texture"])
def test_what_is_drawn_is_compared_with_the_image_and_not_with_its_restyled_copy(
    restyle,
):
    seen = {}
    method = make(**{**PLAIN, "alpha": 1.0, "restyle": restyle})
    model = method.build(SMALL)
    for part in ("content", "style"):
        getattr(model, part).register_forward_pre_hook(
            lambda _, given, part=part: seen.setdefault(part, given[0])
        )
    torch.manual_seed(0)
    method._loss(model, X, Y)
    assert torch.equal(seen["style"], X)
    assert 0 <= seen["content"].min() <= seen["content"].max() <= 1
    changed = (seen["content"] != X).flatten(1).any(1)
    assert 0 < changed.sum() < len(X)
    if restyle == "polarity":
        assert torch.equal(seen["content"][changed], 1 - X[changed])


# -- codes and newcomers


def test_a_code_is_decoded_as_it_was_encoded():
    method = make(noise=0)
    assert isinstance(method, Decodes)
    model = method.build(SMALL).eval()
    latents = method.encode(model, X)
    assert latents.shared.shape == (6, 48 * 2 * 2)
    assert latents.local.shape == (6, 8)
    drawn = model.draw(model.content(X), model.style(X))
    assert torch.equal(method.decode(model, latents), drawn)


def test_the_content_of_a_code_has_noise_and_an_image_always_the_same():
    method = make(noise=3)
    model = method.build(SMALL).eval()
    with torch.no_grad():
        codes = method.encode(model, X)
        again = torch.cat([method.encode(model, image[None]).shared for image in X])
        clean = model.content(X).flatten(1)
    assert torch.allclose(codes.shared, again, atol=1e-5)
    noise = (codes.shared - clean) / 3
    assert abs(float(noise.mean())) < 0.1
    assert 0.9 < float(noise.std()) < 1.1
    assert abs(float(torch.corrcoef(noise)[0, 1])) < 0.3


def test_the_decoder_is_given_content_in_noise_and_the_classifier_is_not():
    plain, noisy = (make(**{**PLAIN, "noise": noise}) for noise in (0, 2))
    model = plain.build(SMALL).eval()
    with torch.no_grad():
        assert torch.equal(plain._loss(model, X, Y), noisy._loss(model, X, Y))
    given = {}
    model.decoder.register_forward_pre_hook(lambda _, x: given.update(decoder=x[0]))
    model.pool.register_forward_pre_hook(lambda _, x: given.update(classifier=x[0]))
    with torch.no_grad():
        make(**{**PLAIN, "alpha": 1, "noise": 2})._loss(model, X, Y)
        assert torch.equal(given["classifier"], model.content(X))
    deviations = (given["decoder"] - given["classifier"]).flatten(1).std(1)
    assert deviations.max() < 2.5
    assert deviations.max() > 2 * deviations.min()  # of all strengths up to the setting's


@pytest.fixture(scope="module")
def trained():
    method = make(lr=0.005, batch_size=8)
    *_, last = federate(method, make_population(), rounds=2, states=MemoryStates())
    return method, last


def test_a_newcomer_learns_its_style_without_labels_and_draws_better(trained):
    method, last = trained
    data = make_population().data("c3")
    before = method.first_state(last.server, last.info)
    after = method.join(last.server, data.without_labels(), last.info)
    assert any(not torch.equal(before.local[name], after.local[name]) for name in before.local)
    errors = []
    for state in (before, after):
        model = method.load(method.personal(last.server, state), SMALL)
        with torch.no_grad():
            drawn = method.decode(model, method.encode(model, data.x))
        errors.append(float(sharp_reconstruction(drawn, data.x)))
    assert errors[1] < errors[0]


def test_labels_make_no_difference_to_a_newcomer(trained):
    method, last = trained
    data = make_population().data("c3")
    states = []
    for given in (data, data.without_labels()):
        with client_randomness(last.info, "c3"):
            states.append(method.join(last.server, given, last.info))
    for name, tensor in states[0].local.items():
        assert torch.equal(tensor, states[1].local[name])


def test_a_member_fits_its_style_to_the_decoder_of_all_when_training_is_over(trained):
    method, last = trained
    data = make_population().data("c0")
    state = ClientState(method.first_state(last.server, last.info).local)
    earlier = replace(last.info, round=1)
    assert method.before_use(last.server, state, data, earlier) is state
    fitted = method.before_use(last.server, state, data, last.info)
    assert fitted.local.keys() == state.local.keys()
    assert not torch.equal(fitted.local["style.code.weight"], state.local["style.code.weight"])
    assert make(variant="paper").before_use(last.server, state, data, last.info) is state


def test_no_style_changes_a_prediction():
    method = make()
    model = method.build(SMALL).eval()
    assert isinstance(model, ContentStyle)
    with torch.no_grad():
        before = method.predict(model, X)
        for parameter in [*model.style.parameters(), *model.mapping.parameters()]:
            parameter.normal_()
        assert torch.equal(method.predict(model, X), before)
