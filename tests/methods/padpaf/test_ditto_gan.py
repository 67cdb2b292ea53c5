from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import make_population

from duotone.federation.engine import MemoryStates, federate
from duotone.federation.local_training import proximal_term
from duotone.federation.params import unpacked
from duotone.federation.protocols import Generates
from duotone.methods.padpaf.ditto_gan import DittoGAN, DittoGANConfig, halves
from duotone.methods.padpaf.padpaf import PaDPaF, PaDPaFConfig
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientData, RoundInfo

POPULATION = make_population()
INFO = RoundInfo(1, 2, 0, POPULATION.info)


def make(**settings):
    return DittoGAN(DittoGANConfig(batch_size=4, **settings), as_network(cnn_bn))


def padpaf(**settings):
    return PaDPaF(PaDPaFConfig(batch_size=4, **settings), as_network(cnn_bn))


def first_turn(method, data, info=INFO):
    server = method.start(info)
    return method.client_update(server, method.first_state(server, info), data, info)


def own(state):
    return unpacked(state.extra, "own")


def parted(data, info=INFO):
    return halves(data, info.generator("client", data.client, "halves"))


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def test_halves_have_every_sample_once_with_its_label():
    x = torch.arange(7.0).view(7, 1)
    data = ClientData("a", x, torch.arange(7), POPULATION.info)
    first, second = halves(data, torch.Generator().manual_seed(0))
    assert (len(first), len(second)) == (4, 3)
    assert sorted(torch.cat([first.x, second.x]).flatten().tolist()) == list(range(7))
    for half in (first, second):
        assert half.x.flatten().tolist() == half.y.tolist()


def test_a_single_sample_is_in_both_halves_and_labels_may_be_missing():
    data = POPULATION.data("c0").first(1).without_labels()
    for half in halves(data, torch.Generator()):
        assert torch.equal(half.x, data.x)
        assert half.y is None


def test_the_shared_gan_is_the_fully_federated_one_on_half_of_the_images():
    data = POPULATION.data("c0")
    update, _ = first_turn(make(), data)
    reference, _ = first_turn(padpaf(share="all"), parted(data)[0])
    assert_equal(update.shared, reference.shared)
    assert update.weight == len(data)


def test_without_a_pull_the_own_gan_is_a_client_s_alone_on_the_other_half():
    data = POPULATION.data("c0")
    _, state = first_turn(make(prox=0), data)
    _, alone = first_turn(padpaf(share="none"), parted(data)[1])
    assert_equal(own(state), alone.local)


def test_without_a_pull_the_own_gan_goes_on_from_where_it_was():
    method, data, later = make(prox=0), POPULATION.data("c0"), replace(INFO, round=2)
    _, state = first_turn(method, data)
    torch.manual_seed(1)
    far = method.start(replace(INFO, seed=7))  # whatever the server has become
    _, second = method.client_update(far, state, data, later)
    alone = padpaf(share="none")
    _, before = first_turn(alone, parted(data)[1])
    _, reference = alone.client_update(alone.start(INFO), before, parted(data, later)[1], later)
    assert_equal(own(second), reference.local)


def test_the_pull_keeps_the_own_gan_near_the_shared_one_as_received():
    data, distances = POPULATION.data("c0"), []
    for prox in (0.0, 1.0, 100.0):
        method = make(prox=prox, lens="plain", epochs=5)
        _, state = first_turn(method, data)
        model = method.load(own(state), INFO.data)
        start = method.start(INFO).shared
        distances.append(float(proximal_term(model, start).detach()))
    assert distances[0] > distances[1] > distances[2] > 0


def test_the_pull_reaches_both_players_and_the_head():
    data = POPULATION.data("c0").without_labels()
    method = make(prox=1e4, lens="plain", contrast=0, lr=1e-3)
    server = method.start(INFO)
    state = method.first_state(server, INFO)
    moved = {name: tensor + 0.1 for name, tensor in own(state).items()}
    away = replace(
        state, extra={f"own/{name}": t for name, t in moved.items()} | {"started": torch.tensor(1)}
    )
    _, after = method.client_update(server, away, data, INFO)
    # Adam's steps are as long as the learning rate, all in the direction of the pull.
    for name in ("generator.first.bias", "vectorizer.layers.0.bias", "content.layers.0.bias"):
        nearer = (own(after)[name] - server.shared[name]).abs()
        assert bool((nearer < 0.0999).all()), name
    assert bool(((own(after)["head.bias"] - server.shared["head.bias"]).abs() < 0.0999).all())


@pytest.mark.parametrize(("prox", "global_prox"), [(4.0, 0.0), (0.0, 6.0), (4.0, 6.0)])
def test_both_players_minimise_their_own_loss_plus_half_the_squared_distance(
    prox, global_prox, monkeypatch
):
    method = make(prox=prox, global_prox=global_prox, lens="plain")
    monkeypatch.setattr(method, "_judging_loss", lambda *_: torch.tensor(2.0))
    monkeypatch.setattr(method, "_reading_loss", lambda *_: torch.tensor(3.0))
    monkeypatch.setattr(method, "_drawing_loss", lambda *_, **__: torch.tensor(5.0))
    found, sizes = [], []

    def step(_, parameters, loss):
        found.append(float(loss.detach()))
        sizes.append(sum(p.numel() for p in parameters))
        with torch.no_grad():
            for p in parameters:
                p.add_(0.1)

    monkeypatch.setattr("duotone.methods.padpaf.adversarial._descend", step)
    data = POPULATION.data("c0").first(8)  # a batch of four for each of the two GANs
    first_turn(method, data)
    judging, drawing = sizes[:2]
    assert sizes == [judging, drawing] * 2
    expected = []
    for strength in (global_prox, prox):  # each GAN starts where it is pulled to
        expected += [2 + 3, 5 + strength / 2 * 0.1**2 * judging]
    assert found == pytest.approx(expected, rel=1e-3)


def test_fedprox_pulls_the_shared_gan_and_leaves_the_own_one():
    data = POPULATION.data("c0")
    distances, kept = [], []
    for strength in (0.0, 100.0):
        method = make(global_prox=strength, epochs=5)
        update, state = first_turn(method, data)
        start = method.start(INFO).shared
        model = method.load({**update.shared, **state.local}, INFO.data)
        distances.append(float(proximal_term(model, start).detach()))
        kept.append(own(state))
    assert distances[1] < distances[0]
    assert_equal(*kept)


def test_the_own_lens_is_fitted_once_and_the_shared_one_is_not():
    data = POPULATION.data("c0")
    dark = replace(data, x=1 - data.x)
    method = make(lr=1e-9)
    update, state = first_turn(method, dark)
    assert torch.allclose(update.shared["generator.lens.frame"], torch.eye(2, 3), atol=1e-4)
    ground = own(state)["generator.lens.ground"]
    assert float(ground) > float(own(state)["generator.lens.ink"])
    _, later = method.client_update(method.start(INFO), state, data, replace(INFO, round=2))
    assert torch.allclose(own(later)["generator.lens.ground"], ground, atol=1e-4)


def test_a_plain_lens_is_not_fitted():
    _, state = first_turn(make(lr=1e-9, lens="plain"), POPULATION.data("c0"))
    assert torch.allclose(own(state)["generator.lens.frame"], torch.eye(2, 3), atol=1e-4)


def test_a_member_draws_with_its_own_gan():
    method, states = make(), MemoryStates()
    *_, last = federate(method, POPULATION, rounds=2, states=states)
    assert isinstance(method, Generates)
    state = states.get("c0")
    served = method.before_use(last.server, state, POPULATION.data("c0"), last.info)
    assert_equal(dict(method.personal(last.server, served)), own(state))
    model = method.load(method.personal(last.server, served), POPULATION.info).eval()
    drawn = method.generate(model, method.draw(model, 3, torch.Generator()))
    assert drawn.isfinite().all()


def test_a_newcomer_trains_an_own_gan_and_without_labels_keeps_everybodys_head():
    method, data = make(), POPULATION.data("c3")
    server = method.start(INFO)
    labelled = own(method.join(server, data, INFO))
    unlabelled = own(method.join(server, data.without_labels(), INFO))
    name = "generator.first.weight"
    for found in (labelled, unlabelled):
        assert not torch.equal(found[name], server.shared[name])
    assert not torch.equal(labelled["head.weight"], server.shared["head.weight"])
    assert torch.equal(unlabelled["head.weight"], server.shared["head.weight"])


@pytest.mark.parametrize("settings", [{"variant": "paper"}, {"conditional": True}])
def test_other_forms_of_the_gan_train(settings):
    update, state = first_turn(make(**settings), POPULATION.data("c0"))
    tensors = [*update.shared.values(), *own(state).values()]
    assert all(tensor.isfinite().all() for tensor in tensors)
