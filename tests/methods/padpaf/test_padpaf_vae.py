from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from by_numpy import nats, surprise, twins
from federations import make_population

from duotone.federation.engine import MemoryStates, federate
from duotone.federation.protocols import Decodes, Generates
from duotone.methods.padpaf.padpaf_vae import PaDPaFVAE, PaDPaFVAEConfig, divergence, reconstruction
from duotone.networks.classifiers import cnn_bn
from duotone.networks.gaussian import Gaussian
from duotone.networks.reading import as_network
from duotone.types import NO_LABEL, DataInfo, Latents, RoundInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)


def make(**settings):
    return PaDPaFVAE(PaDPaFVAEConfig(**settings), as_network(cnn_bn))


# -- terms, worked by hand


def test_a_reconstruction_costs_the_mean_square_of_a_pixel():
    x, drawn = torch.zeros(2, 1, 1, 2), torch.tensor([1.0, 0, 0, 0.5]).view(2, 1, 1, 2)
    assert float(reconstruction(drawn, x)) == pytest.approx((1 + 0.25) / 4)


def test_divergences_are_summed_over_dimensions_and_weighed_by_dimensions_over_pixels():
    content = Gaussian(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.zeros(2, 2))
    style = Gaussian(torch.zeros(2, 1), torch.full((2, 1), math.log(4.0)))
    # KL_c: ½ and 2, mean 1.25; KL_s: ½ (4 − 1 − log 4); w: 2 of 8.
    expected = 2 / 8 * (1.25 + 0.5 * (3 - math.log(4)))
    assert float(divergence(content, style, 8)) == pytest.approx(expected)


# -- what is shared and what is local


def parts(**settings):
    method = make(**settings)
    shared, local = method.split(method.build(SMALL))
    return set(shared), set(local)


def test_style_stays_and_content_leaves():
    shared, local = parts()
    assert {name.split(".")[0] for name in shared} == {"generator", "content", "head"}
    assert all(name.startswith(("vectorizer.", "generator.lens.", "style.")) for name in local)
    assert {"generator.lens.ink", "vectorizer.layers.0.weight", "style.mean.weight"} <= local
    assert {"content.log_variance.weight", "content.projector.0.weight"} <= shared


@pytest.mark.parametrize("lens", ["fitted", "none"])
def test_there_are_no_buffers_to_lose(lens):
    model = make(lens=lens).build(SMALL)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


def test_without_a_lens_style_modulates_every_norm():
    shared, local = parts(lens="none")
    assert not any(".lens." in name for name in shared | local)
    assert {f"generator.norms.{i}.by_style.weight" for i in range(3)} <= shared


# -- codes and pictures


def test_it_decodes_and_generates_without_labels():
    method = make()
    assert isinstance(method, Generates)
    assert isinstance(method, Decodes)
    assert not method.draws_labels
    model = method.module(SMALL)
    draws = method.draw(model, 2, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="leave them out"):
        method.generate(model, draws, torch.tensor([0, 1]))


def test_drawing_is_decoding_latents_of_the_prior_and_leaves_the_model_as_it_was():
    method = make()
    model = method.module(SMALL).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    draws = method.draw(model, 4000, torch.Generator().manual_seed(1))
    assert float(draws.content.std()) == pytest.approx(1, abs=0.05)
    assert draws.style.shape == (4000, method.config.style_dim)
    first = method.generate(model, draws)
    assert first.shape == (4000, 1, 8, 8)
    assert 0 <= float(first.min()) <= float(first.max()) <= 1
    assert torch.equal(first, method.decode(model, Latents(draws.content, draws.style)))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_codes_are_the_means_with_their_deviations():
    method, x = make(), make_population().data("c0").x[:5]
    model = method.module(SMALL).eval()
    codes = method.encode(model, x)
    content, style = model.encode(x)
    assert torch.equal(codes.shared, content.mean)
    assert torch.equal(codes.local_std, (0.5 * style.log_variance).exp())


# -- training


def loaded(method, population):
    info = RoundInfo(1, 2, 0, population.info)
    state = method.first_state(method.start(info), info)
    return method.load(method.personal(method.start(info), state), info.data).train(), info


def gradients(loss, model):
    model.zero_grad()
    loss.backward()
    return {
        ".".join(name.split(".")[:2])
        for name, p in model.named_parameters()
        if p.grad is not None and bool(p.grad.abs().sum() > 0)
    }


@pytest.mark.parametrize("style", ["inferred", "drawn"])
def test_the_loss_is_pixels_plus_beta_times_nats_plus_the_head_plus_lambda_times_twins(
    style, monkeypatch
):
    method, population = make(style=style, beta=5.0, contrast=0.3), make_population()
    model, info = loaded(method, population)
    data = population.data("c0")
    losses = []
    monkeypatch.setattr(
        "duotone.methods.padpaf.padpaf_vae.train", lambda *_, loss, **__: losses.append(loss) or 0.0
    )
    method._fit(model, data, info)
    with torch.no_grad():
        for encoder in (model.content, model.style):  # so that no term is near 0
            encoder.mean.weight.mul_(5)
        x, y = data.x[:8], data.y[:8]
        torch.manual_seed(1)
        found = float(losses[0](model, x, y))
        torch.manual_seed(1)
        content, of_style = model.encode(x)
        z = torch.randn_like(of_style.mean) if style == "drawn" else of_style.sample()
        pixels = (model.draw(content.sample(), z) - x).double().numpy()
        labels = surprise(model.head(content.mean), y)
        draws = method.draw(model, 4, info.generator("client", "c0", "train-draws"))
        # (c0, s0), (c0, s1), (c1, s1), …
        some = torch.arange(8) // 2
        drawn = model.draw(draws.content[some], draws.style[(torch.arange(8) + 1) // 2 % 4])
        pair = [
            part.projected(q)
            for part, q in zip((model.content, model.style), model.encode(drawn), strict=True)
        ]
    both = nats(content).mean() + nats(of_style).mean()
    divergences = model.content.mean.out_features / x[0].numel() * both
    contrast = twins(pair[0][0::2], pair[0][1::2]) + twins(pair[1][1::2], pair[1][[2, 4, 6, 0]])
    assert min(5.0 * divergences, labels, contrast) > 0.1
    expected = (pixels**2).mean() + 5.0 * divergences + labels + 0.3 * contrast
    assert found == pytest.approx(expected, rel=1e-3)


def test_only_an_inferred_style_hears_from_the_reconstruction():
    population = make_population()
    data = population.data("c0").without_labels()
    unknown = torch.full((8,), NO_LABEL)
    reached = {}
    for style in ("inferred", "drawn"):
        method = make(style=style, beta=0)
        model, _ = loaded(method, population)
        reached[style] = gradients(method._loss(model, data.x[:8], unknown), model)
    assert {"style.mean", "style.log_variance", "content.mean"} <= reached["inferred"]
    assert not any(name.startswith("style.") for name in reached["drawn"])
    assert {"content.mean", "generator.lens", "vectorizer.layers"} <= reached["drawn"]


def test_the_contrast_reaches_encoders_and_no_generator():
    method, population = make(), make_population()
    model, _ = loaded(method, population)
    found = gradients(method._contrast(model, 8, torch.Generator().manual_seed(0)), model)
    assert {name.split(".")[0] for name in found} == {"content", "style"}


def test_labels_train_the_head_and_do_not_make_content():
    method, population = make(), make_population()
    info, data = RoundInfo(1, 2, 0, population.info), population.data("c0")
    server = method.start(info)
    state = method.first_state(server, info)
    sent = []
    for some in (data, data.without_labels()):
        torch.manual_seed(0)
        sent.append(method.client_update(server, state, some, info)[0].shared)
    for name in server.shared:
        if name.startswith("head."):
            assert torch.equal(sent[1][name], server.shared[name])
            assert not torch.equal(sent[0][name], sent[1][name])
        else:
            assert torch.equal(sent[0][name], sent[1][name]), name


def test_without_contrast_the_projectors_do_not_learn():
    method, population = make(contrast=0), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    server = method.start(info)
    state = method.first_state(server, info)
    update, _ = method.client_update(server, state, population.data("c0"), info)
    for name, tensor in update.shared.items():
        if ".projector." in name:
            assert torch.equal(tensor, server.shared[name]), name


def test_a_client_fits_its_lens_once():
    method, population = make(lr=1e-9), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    server, data = method.start(info), population.data("c0")
    dark = replace(data, x=1 - data.x)
    _, state = method.client_update(server, method.first_state(server, info), dark, info)
    ground = state.local["generator.lens.ground"]
    assert float(ground) > float(state.local["generator.lens.ink"])
    _, later = method.client_update(server, state, data, replace(info, round=2))
    assert torch.allclose(later.local["generator.lens.ground"], ground, atol=1e-4)


def test_a_member_is_served_as_it_is():
    method, population = make(), make_population()
    info = RoundInfo(2, 2, 0, population.info)
    server = method.start(info)
    state = method.first_state(server, info)
    assert method.before_use(server, state, population.data("c0"), info) is state


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_newcomer_learns_its_own_part_and_nothing_shared_moves(epochs):
    method, population = make(newcomer_epochs=epochs), make_population()
    info = RoundInfo(2, 2, 0, population.info)
    server = method.start(info)
    before = {name: tensor.clone() for name, tensor in server.shared.items()}
    start = method.first_state(server, info)
    state = method.join(server, population.data("c3").without_labels(), info)
    assert not torch.equal(state.local["generator.lens.ink"], start.local["generator.lens.ink"])
    for name in ("vectorizer.layers.0.weight", "style.layers.0.bias", "style.mean.weight"):
        assert torch.equal(state.local[name], start.local[name]) == (epochs == 0), name
    used = method.load(method.personal(server, state), info.data).state_dict()
    for name, tensor in before.items():
        assert torch.equal(used[name], tensor), name


@pytest.mark.parametrize(
    "settings",
    [{"style": "drawn"}, {"lens": "none"}, {"batch_size": 1}, {"server_optimizer": "adam"}],
)
def test_every_form_trains_and_draws_finite_pictures(settings):
    method, population, states = make(**settings), make_population(), MemoryStates()
    *_, last = federate(method, population, rounds=2, states=states)
    model = method.load(method.personal(last.server, states.get("c0")), population.info).eval()
    drawn = method.generate(model, method.draw(model, 3, torch.Generator()))
    assert drawn.isfinite().all()
    assert all(math.isfinite(value) for value in last.updates[0].metrics.values())
