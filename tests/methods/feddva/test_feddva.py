from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from by_numpy import nats, surprise
from federations import make_population

from duotone.errors import ConfigError
from duotone.federation.engine import MemoryStates, federate
from duotone.methods.feddva.dual_vae import DualVAE, noisy_or
from duotone.methods.feddva.feddva import FedDVA, FedDVAConfig
from duotone.methods.feddva.terms import (
    constrained,
    kl_to_batch,
    kl_to_batch_bound,
    kl_to_centre,
    reconstruction,
)
from duotone.networks.classifiers import cnn_bn
from duotone.networks.gaussian import Gaussian, kl_to_standard
from duotone.networks.reading import as_network
from duotone.types import NO_LABEL, ClientState, DataInfo, RoundInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)


def gaussian(mean, log_variance):
    return Gaussian(torch.tensor(mean), torch.tensor(log_variance))


# -- networks


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 64)])
def test_the_decoder_as_printed_is_the_encoder_in_reverse(channels, size):
    data = DataInfo((channels, size, size), "classes", 4)
    network = make(variant="paper").build(data)
    down, up = (
        [m for m in part.modules() if isinstance(m, torch.nn.Conv2d)]
        for part in (network.encoder_z, network.decoder)
    )
    assert len(down) == 4
    assert [(m.out_channels, m.in_channels) for m in reversed(down)] == [
        (m.in_channels, m.out_channels) for m in up
    ]
    x = torch.rand(2, channels, size, size)
    _, z, q_c = network.encode(x, sample=True)
    assert network.decoder(z, q_c.sample()).shape == x.shape
    assert network.decoder(z, q_c.sample()).min() < 0  # logits


# -- terms, worked by hand


def test_reconstruction_sums_over_pixels_and_averages_over_samples():
    logits = torch.zeros(2, 1, 2, 2)
    x = torch.tensor([0.0, 1.0, 0.5, 1.0]).view(1, 1, 2, 2).expand(2, 1, 2, 2)
    assert float(reconstruction(logits, x)) == pytest.approx(4 * math.log(2))


def test_divergence_from_the_standard_normal():
    q = gaussian([[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [math.log(4), 0.0]])
    # ½·1² and ½(4 − 1 − log 4)
    assert kl_to_standard(q).tolist() == pytest.approx([0.5, 0.5 * (3 - math.log(4))])


def test_the_bound_is_the_mean_divergence_between_pairs():
    q = gaussian([[0.0], [2.0]], [[0.0], [0.0]])
    # to itself 0, to the other ½·2²; the mean over both
    assert kl_to_batch_bound(q).tolist() == pytest.approx([1.0, 1.0])
    unequal = gaussian([[0.0], [0.0]], [[0.0], [math.log(4)]])
    narrow_to_wide = 0.5 * (1 / 4 - 1 + math.log(4))
    wide_to_narrow = 0.5 * (4 - 1 - math.log(4))
    assert kl_to_batch_bound(unequal).tolist() == pytest.approx(
        [narrow_to_wide / 2, wide_to_narrow / 2]
    )


def test_the_divergence_from_the_mixture_is_zero_for_equal_codes_and_at_most_the_log_of_them():
    equal = gaussian([[1.0]] * 4, [[0.0]] * 4)
    assert kl_to_batch(equal, equal.sample()).tolist() == pytest.approx([0.0] * 4, abs=1e-6)
    apart = gaussian([[0.0], [100.0], [200.0], [300.0]], [[0.0]] * 4)
    assert kl_to_batch(apart, apart.mean).tolist() == pytest.approx([math.log(4)] * 4)
    # where the bound of Eq. (26) has long left: ½·(100² + 200² + 300²)/4 for the first
    assert float(kl_to_batch_bound(apart)[0]) == pytest.approx(17500.0)


def test_the_mixture_of_two_is_worked_out():
    q = gaussian([[0.0], [2.0]], [[0.0], [0.0]])
    # at its own mean: density 1 (up to a constant) against the mean of 1 and exp(−½·2²)
    expected = -math.log((1 + math.exp(-2)) / 2)
    assert kl_to_batch(q, q.mean).tolist() == pytest.approx([expected, expected])


def test_the_constraint_takes_the_larger_side():
    client, everybody = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 3.0])
    assert constrained(client, everybody, 2.0).tolist() == [2.5, 3.0]


def test_the_centre_is_the_batch_mean_and_takes_no_gradient():
    mean = torch.tensor([[1.0], [3.0]], requires_grad=True)
    q = Gaussian(mean, torch.zeros(2, 1))
    found = kl_to_centre(q)
    assert found.tolist() == pytest.approx([0.5, 0.5])
    found.sum().backward()
    assert mean.grad is not None
    assert mean.grad.flatten().tolist() == pytest.approx([-1.0, 1.0])


def test_noisy_or_is_dark_only_where_both_are():
    a, b = torch.tensor([-1.0, 2.0, -40.0]), torch.tensor([0.5, -30.0, -40.0])
    expected = 1 - (1 - a.double().sigmoid()) * (1 - b.double().sigmoid())
    assert torch.allclose(noisy_or(a, b).double().sigmoid(), expected, atol=1e-6)
    assert noisy_or(a, b).isfinite().all()


def test_the_second_encoder_bends_nothing_in_the_first():
    model = make().build(SMALL)
    _, _, q_c = model.encode(torch.rand(3, 1, 8, 8), sample=True)
    q_c.mean.sum().backward()
    assert model.plane.weight.grad is not None
    assert all(p.grad is None for p in model.encoder_z.parameters())


# -- the sum of all terms, worked with NumPy


def among_pairs(q):
    """The mean over j of KL(q_i‖q_j), as Eq. (26) is printed."""
    mean, deviation = q.mean.numpy()[:, None], q.std.numpy()[:, None]
    ratio = (deviation / deviation.swapaxes(0, 1)) ** 2
    gap = ((mean - mean.swapaxes(0, 1)) / deviation.swapaxes(0, 1)) ** 2
    return (gap - np.log(ratio) + ratio - 1).sum(axis=2).mean(axis=1) / 2


def among_mixture(q, c):
    """log q_i(c_i) − log mean_j q_j(c_i)."""
    mean, deviation = q.mean.numpy(), q.std.numpy()
    gap = ((c.numpy()[:, None] - mean) / deviation) ** 2
    density = np.exp(-gap / 2).prod(axis=2) / deviation.prod(axis=1)
    return np.log(np.diag(density) / density.mean(axis=1))


def regulariser(variant, xi, q, c):
    if variant == "duotone":
        return max(xi + among_mixture(q, c).mean(), nats(q).mean())
    if variant == "paper":
        return np.maximum(xi + among_pairs(q), nats(q)).mean()
    centred = Gaussian(q.mean - q.mean.mean(dim=0), q.log_variance)
    return (nats(centred) + np.maximum(xi + among_pairs(q) - nats(q), 0)).mean()


def pixel_nats(logits, x):
    p = 1 / (1 + np.exp(-logits.double().numpy()))
    x = x.double().numpy()
    return -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum(axis=(1, 2, 3)).mean()


def spread_codes(model):
    """Codes that differ, so that no term of the loss is near 0."""
    with torch.no_grad():
        for encoder in (model.encoder_z, model.encoder_c):
            encoder.mean.weight.mul_(20)
            encoder.log_variance.bias.sub_(1)


@pytest.mark.parametrize("variant", ["duotone", "paper", "code"])
@pytest.mark.parametrize("xi", [0.0, 50.0])  # slack for some or all, binding for all
def test_the_loss_is_pixels_plus_alpha_times_z_plus_beta_times_c(variant, xi):
    method = make(variant=variant, xi=xi, alpha=0.7)
    torch.manual_seed(0)
    model, x = method.build(SMALL), torch.rand(6, 1, 8, 8)
    spread_codes(model)
    torch.manual_seed(1)
    found = float(method._loss(model, x, 3.0).detach())
    torch.manual_seed(1)
    with torch.no_grad():
        q_z, z, q_c = model.encode(x, sample=True)
        c = q_c.sample()
        pixels = pixel_nats(model.decoder(z, c), x)
    of_z, of_c = nats(q_z).mean(), regulariser(variant, xi, q_c, c)
    assert min(of_z, of_c) > 0.5
    assert found == pytest.approx(pixels + 0.7 * of_z + 3.0 * of_c, rel=1e-4)


@pytest.mark.parametrize("variant", ["duotone", "paper", "code"])
def test_without_the_constraint_c_is_held_to_its_prior_or_to_the_clients_centre(variant):
    method = make(variant=variant, xi=50.0, constraint=False)
    model, x = method.build(SMALL), torch.rand(6, 1, 8, 8)
    spread_codes(model)
    with torch.no_grad():
        _, _, q = model.encode(x, sample=True)
        found = float(method._regulariser(q, q.sample()))
    centre = q.mean.mean(dim=0) if variant == "code" else 0.0
    assert found == pytest.approx(nats(Gaussian(q.mean - centre, q.log_variance)).mean(), rel=1e-4)


def test_where_c_is_noise_it_costs_nothing():
    method = make(variant="code", alpha=0.7)
    model, x = method.build(SMALL), torch.rand(6, 1, 8, 8)
    spread_codes(model)
    torch.manual_seed(1)
    found = float(method._loss(model, x, None).detach())
    torch.manual_seed(1)
    with torch.no_grad():
        q_z, z, q_c = model.encode(x, sample=True)
        pixels = pixel_nats(model.decoder(z, torch.randn_like(q_c.mean)), x)
    assert found == pytest.approx(pixels + 0.7 * nats(q_z).mean(), rel=1e-4)


@pytest.mark.parametrize(("classify", "weight"), [("probe", 1.0), ("tune", 30.0)])
@pytest.mark.parametrize("variant", ["duotone", "paper", "code"])
def test_labels_add_their_loss_to_that_of_the_images(variant, classify, weight, monkeypatch):
    method = make(variant=variant, classify=classify, label_weight=30.0)
    data = make_population().data("c0")
    info = RoundInfo(1, 4, 0, data.info)
    server = method.start(info)
    losses = []
    monkeypatch.setattr(
        "duotone.methods.feddva.feddva.train",
        lambda model, *_, loss, phase, **__: losses.append((model, loss, phase)) or 0.0,
    )
    method.client_update(server, method.first_state(server, info), data, info)
    model, loss, phase = losses[-1]  # the one that trains the head
    torch.manual_seed(1)
    found = float(loss(model, data.x[:6], data.y[:6]).detach())
    torch.manual_seed(1)
    images = float(method._loss(model, data.x[:6], method.beta(info)).detach())
    rows = torch.randint(
        len(data), (32,), generator=info.generator("client", "c0", f"{phase}-labels")
    )
    with torch.no_grad():
        _, z, q_c = model.encode(data.x[rows], sample=True)
        scores = model.head(torch.cat([z, q_c.sample()], dim=1))
    expected = images + weight * surprise(scores, data.y[rows])
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_batch_of_codes_tells_less_than_the_whole_client():
    """`kl_client` is at most the log of the batch, and below the truth before that."""
    torch.manual_seed(0)
    count, deviation = 100_000, 0.05
    means = torch.randn(count, 1)
    truth = 0.5 * math.log(1 + 1 / deviation**2)  # 3.00 nats, of one Gaussian among them all
    found = []
    for batch in (32, 64, 256):
        values = []
        for some in means.split(batch)[:200]:
            q = Gaussian(some, torch.full_like(some, 2 * math.log(deviation)))
            values.append(float(kl_to_batch(q, q.sample()).mean()))
        found.append(sum(values) / len(values))
        assert found[-1] < min(truth, math.log(batch))
    assert found == sorted(found)
    assert found == pytest.approx([2.57, 2.76, 2.92], abs=0.05)


# -- what is shared and what is local


def make(**settings):
    return FedDVA(FedDVAConfig(**settings), as_network(cnn_bn))


def parts(**settings):
    method = make(**settings)
    shared, local = method.split(method.build(SMALL))
    return {name.split(".")[0] for name in shared}, {
        ".".join(name.split(".")[:2]) for name in local
    }


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_the_paper_shares_the_encoders_and_keeps_the_decoder(variant):
    shared, local = parts(variant=variant)
    assert shared == {"encoder_z", "encoder_c", "plane", "head"}
    assert local == {"decoder.both", "own_codes"}


def test_what_draws_content_is_shared_and_what_draws_marks_is_local():
    shared, local = parts()
    assert shared == {"encoder_z", "encoder_c", "plane", "head", "decoder"}
    assert local == {"decoder.mark", "own_codes"}
    assert parts(composition="modulate")[1] == {"decoder.manner", "decoder.render", "own_codes"}
    assert parts(heads="local")[1] >= {"head.weight", "head.bias"}


def test_content_does_not_depend_on_c_nor_the_mark_on_z():
    model = make().build(SMALL)
    z, c = torch.randn(3, 8), torch.randn(3, 4)
    content = model.decoder.content(z)
    assert torch.equal(model.decoder(z, c), noisy_or(content, model.decoder.mark(c)))


# -- variants


@pytest.mark.parametrize(
    ("variant", "trained"),
    [
        ("paper", {"encoder_z", "encoder_c", "plane", "head", "decoder"}),
        ("code", {"encoder_z", "encoder_c", "plane", "head", "decoder"}),
        ("duotone", {"encoder_z", "encoder_c", "plane", "head", "decoder"}),
    ],
)
def test_every_part_is_trained_in_every_variant(variant, trained):
    method, population = make(variant=variant), make_population()
    states = MemoryStates()
    (result,) = federate(method, population, rounds=1, states=states)
    before = {**method.initial(result.info)[0], **method.initial(result.info)[1]}
    after = {**result.server.shared, **states.states["c0"].local}
    moved = {n.split(".")[0] for n in before if not torch.equal(before[n], after[n])}
    assert moved == trained


def test_beta_is_cheap_for_a_quarter_and_grown_at_half():
    method = make()
    values = [method.beta(RoundInfo(r, 40, 0, SMALL)) for r in (1, 11, 16, 21, 40)]
    assert values == pytest.approx([0.1, 0.1, 1.05, 2.0, 2.0])
    first = RoundInfo(1, 40, 0, SMALL)
    assert make(variant="paper").beta(first) == 0.75
    assert make(composition="modulate").beta(first) == 2.0
    assert make(composition="modulate", beta_start=0.5).beta(first) == 0.5


def test_xi_is_the_variants_unless_given():
    assert make().xi == pytest.approx(math.log(4))
    assert make(variant="paper", local_dim=4).xi == 32
    assert make(variant="code").xi == 0.5
    assert make(xi=3).xi == 3


def test_a_client_that_was_away_updates_its_decoder_first():
    method, population = make(), make_population()
    info = RoundInfo(5, 6, 0, population.info)
    server = method.start(info)
    first = method.first_state(server, info)
    data = population.data("c0")

    def update(last):
        torch.manual_seed(0)
        state = ClientState(first.local, {"round": torch.tensor(last)})
        return method.client_update(server, state, data, info)[1].local

    present, away = update(4), update(2)
    assert not torch.equal(present["decoder.mark.0.weight"], away["decoder.mark.0.weight"])


# -- labels


def test_without_labels_the_head_stays_and_the_rest_learns():
    method, population = make(), make_population()
    info = RoundInfo(1, 4, 0, population.info)
    server = method.start(info)
    state = method.first_state(server, info)
    data = population.data("c0").without_labels()
    update, _ = method.client_update(server, state, data, info)
    assert torch.equal(update.shared["head.weight"], server.shared["head.weight"])
    assert not torch.equal(update.shared["plane.weight"], server.shared["plane.weight"])


@pytest.mark.parametrize("tunes", [False, True])
def test_labels_reach_the_head_and_never_the_local_code(tunes):
    model = make().build(SMALL)
    make()._label_loss(model, torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 3, 2]), tunes).backward()
    reached = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert reached == ({"head", "encoder_z"} if tunes else {"head"})


@pytest.mark.parametrize(
    ("classify", "labels", "first"), [("probe", 24, 11), ("tune", 11, 8), ("tune", 12, 1)]
)
def test_few_labels_tune_when_70_percent_of_the_run_are_over(classify, labels, first, monkeypatch):
    method, population = make(classify=classify), make_population()
    data = population.data("c0")
    assert len(data) == 24
    data.labels[labels:] = NO_LABEL
    found: dict[int, bool] = {}

    def watch(model, x, y, tunes):
        assert len(x) == 32
        assert (y != NO_LABEL).all()
        found[number] = tunes
        return torch.zeros(())

    monkeypatch.setattr(method, "_label_loss", watch)
    for number in range(1, 11):
        info = RoundInfo(number, 10, 0, population.info)
        server = method.start(info)
        state = method.first_state(server, info)
        method.client_update(server, state, data, info)
    assert [number for number in found if found[number]] == list(range(first, 11))


def test_other_samples_are_used_without_their_labels():
    population = make_population()
    population.labelled, population.keeps_unlabelled = 5, True
    data = population.data("c0")
    assert len(data) == 24
    assert (data.labels[5:] == NO_LABEL).all()
    assert (data.labels[:5] != NO_LABEL).all()
    population.keeps_unlabelled = False
    assert len(population.data("c0")) == 5
    assert len(population.data("c0", "test")) == 12


# -- newcomers, pictures


def test_a_newcomer_learns_its_local_part_from_images_and_nothing_else():
    method, population = make(), make_population()
    states = MemoryStates()
    *_, last = federate(method, population, rounds=2, states=states)
    images = population.data("c3").without_labels()
    torch.manual_seed(0)
    state = method.join(last.server, images, last.info)
    _, untouched = method.initial(last.info)
    assert set(state.local) == set(untouched)
    assert not torch.equal(state.local["decoder.mark.0.weight"], untouched["decoder.mark.0.weight"])
    zero = method.first_state(last.server, last.info)
    assert torch.equal(zero.local["decoder.mark.0.weight"], untouched["decoder.mark.0.weight"])


def test_heads_of_ones_own_need_labels():
    assert FedDVA.rules(FedDVAConfig(heads="local")) == ("few-shot",)
    assert FedDVA.rules(FedDVAConfig()) == ("label-free", "zero-shot")


def test_codes_have_means_and_spreads_and_decode_to_pixels():
    method = make()
    model = method.build(SMALL).eval()
    x = torch.rand(5, 1, 8, 8)
    latents = method.encode(model, x)
    assert latents.shared.shape == latents.shared_std.shape == (5, 8)
    assert latents.local.shape == latents.local_std.shape == (5, 4)
    drawn = method.decode(model, latents)
    assert drawn.shape == x.shape
    assert drawn.min() >= 0
    assert drawn.max() <= 1


def test_generated_images_use_the_clients_own_codes_and_follow_the_head():
    method = make()
    model = method.build(SMALL).eval()
    model.own_codes.copy_(torch.arange(64.0).view(-1, 1).expand(64, 4))
    seen = []
    decode = method.decode
    method.decode = lambda m, latents: seen.append(latents) or decode(m, latents)
    draws = method.draw(model, 200, torch.Generator().manual_seed(0))
    images = method.generate(model, draws)
    assert images.shape == (200, 1, 8, 8)
    assert torch.equal(images, method.generate(model, draws))
    method.generate(model, draws, torch.full((200,), 2))
    plain, _, asked = seen
    assert torch.equal(plain.shared, draws.content)
    assert torch.equal(plain.local, asked.local)
    assert all(code[0] == code[1] and 0 <= code[0] < 64 for code in plain.local.tolist())
    assert len(plain.local.unique(dim=0)) > 50, "most of 64 codes are met by 200 draws"
    # Turned around the origin, a code is as likely as before.
    assert torch.allclose(asked.shared.norm(dim=1), plain.shared.norm(dim=1), atol=1e-4)
    chosen, usual = (
        model.head(torch.cat([latents.shared, latents.local], dim=1)).log_softmax(1)[:, 2]
        for latents in (asked, plain)
    )
    assert (chosen >= usual).float().mean() > 0.9


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 30, 33)])
@pytest.mark.parametrize("composition", ["one-piece", "over", "modulate"])
def test_networks_fit_images_of_many_sizes(shape, composition):
    model = DualVAE(DataInfo(shape, "classes", 10), 8, 4, composition)
    x = torch.rand(2, *shape)
    _, z, q_c = model.encode(x, sample=True)
    assert model.decoder(z, q_c.sample()).shape == x.shape
    assert model(x).shape == (2, 10)


def test_tables_and_tiny_images_are_refused():
    for shape in ((16,), (1, 4, 4)):
        with pytest.raises(ConfigError, match="images of at least 8×8"):
            make().build(DataInfo(shape, "classes", 4))
