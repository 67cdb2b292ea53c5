from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_numpy import twins
from federations import make_population

from duotone.errors import ConfigError
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.optimizers import Adam
from duotone.federation.protocols import Decodes, Generates
from duotone.methods.padpaf.padpaf import PaDPaF, PaDPaFConfig
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import NO_LABEL, ClientState, DataInfo, Draws, RoundInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)


def make(**settings):
    return PaDPaF(PaDPaFConfig(**settings), as_network(cnn_bn))


# -- what is shared and what is local


def parts(**settings):
    method = make(**settings)
    shared, local = method.split(method.build(SMALL))
    return set(shared), set(local)


def test_style_stays_and_content_leaves():
    shared, local = parts()
    assert {name.split(".")[0] for name in shared} == {"generator", "content", "scale", "head"}
    assert all(
        name.startswith(("vectorizer.", "generator.lens.", "style.")) or name.endswith(("_u", "_v"))
        for name in local
    )
    assert {"generator.lens.ink", "vectorizer.layers.0.weight"} <= local
    assert any(name.startswith("style.") for name in local)


def test_the_maps_from_style_to_norms_can_stay_at_home():
    name = "generator.norms.2.by_style.weight"
    assert name in parts()[0]
    assert name in parts(norms="local")[1]


@pytest.mark.parametrize("share", ["partial", "all", "none"])
def test_the_vectors_of_spectral_norm_never_leave(share):
    shared, local = parts(share=share)
    assert not any(name.endswith(("._u", "._v")) for name in shared)
    assert any(name.endswith("._u") for name in local)


def test_all_or_nothing_can_be_shared():
    assert all(name.endswith(("._u", "._v")) for name in parts(share="all")[1])
    assert not parts(share="none")[0]


def test_the_paper_has_no_lens_and_modulates_every_norm():
    shared, local = parts(variant="paper")
    assert not any(".lens." in name for name in shared | local)
    assert {f"generator.norms.{i}.by_style.weight" for i in range(3)} <= shared
    assert parts(lens="none")[0] == shared


# -- drawing


@pytest.mark.parametrize("variant", ["duotone", "paper"])
def test_drawing_is_repeatable_and_leaves_the_model_as_it_was(variant):
    method = make(variant=variant)
    model = method.module(SMALL).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    draws = method.draw(model, 6, torch.Generator().manual_seed(1))
    first, second = method.generate(model, draws), method.generate(model, draws)
    assert torch.equal(first, second)
    assert first.shape == (6, 1, 8, 8)
    assert 0 <= float(first.min()) <= float(first.max()) <= 1
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_latents_are_standard_normal_and_depend_on_the_generator_alone():
    methods = [make(content_dim=3, style_dim=2) for _ in range(2)]  # with weights of their own
    draws, again = (
        method.draw(method.module(SMALL), 4000, torch.Generator().manual_seed(0))
        for method in methods
    )
    assert torch.equal(draws.content, again.content)
    assert draws.style.shape == (4000, 2)
    assert float(draws.content.std()) == pytest.approx(1, abs=0.05)


def test_it_generates_and_does_not_decode():
    assert isinstance(make(), Generates)
    assert not isinstance(make(), Decodes)


def test_labels_are_asked_for_by_those_who_can_be_asked():
    plain, conditional = make(), make(conditional=True)
    generator, label = torch.Generator().manual_seed(0), torch.tensor([0, 3])
    model = conditional.module(SMALL)
    draws = conditional.draw(model, 2, generator)
    assert conditional.generate(model, draws, label).shape == (2, 1, 8, 8)
    with pytest.raises(ValueError, match="one for each picture; got none"):
        conditional.generate(model, draws)
    with pytest.raises(ValueError, match="conditional = true"):
        plain.generate(plain.module(SMALL), draws, label)


def test_real_numbers_cannot_be_asked_for():
    with pytest.raises(ConfigError, match="leave out conditional"):
        make(conditional=True).build(DataInfo((1, 8, 8), "regression", 1))


def test_a_picture_is_re_styled_by_taking_one_lens_off_and_putting_another_on():
    method = make()
    model = method.module(SMALL)
    x = make_population().data("c0").x[:5]
    with torch.no_grad():
        model.generator.lens.tones_by_style.weight.zero_()
        model.generator.lens.frame_by_style.weight.zero_()
        model.generator.lens.blur_by_style.weight.zero_()
    canvas = method.canvas(model, x)
    assert torch.allclose(method.show(model, canvas, torch.randn(5, 32)), x, atol=1e-5)
    with torch.no_grad():
        model.generator.lens.ground.fill_(1)
        model.generator.lens.ink.fill_(0)
    assert torch.allclose(method.show(model, canvas, torch.randn(5, 32)), 1 - x, atol=1e-5)


def test_without_a_lens_nothing_is_re_styled():
    method = make(variant="paper")
    with pytest.raises(ConfigError, match="use variant=duotone"):
        method.canvas(method.module(SMALL), torch.rand(2, 1, 8, 8))


@pytest.mark.parametrize(
    "settings", [{}, {"lens": "none"}, {"variant": "paper", "conditional": True}]
)
def test_a_style_is_taken_off_and_put_on_by_chance_and_the_model_stays_as_it_is(settings):
    method = make(**settings)
    model = method.module(SMALL).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = make_population().data("c0").x[:5]

    def drawn(seed, other=0):
        content = method.take_off(model, x, torch.Generator().manual_seed(seed), redrawn=False)
        return method.put_on(model, content, torch.Generator().manual_seed(other))

    first = drawn(0)
    assert first.shape == x.shape
    assert 0 <= float(first.min()) <= float(first.max()) <= 1
    assert torch.equal(drawn(0), first)
    assert not torch.equal(drawn(0, other=1), first)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_images_are_drawn_anew_from_latents_when_no_stroke_may_be_left():
    method = make()
    model = method.module(SMALL).eval()
    x = make_population().data("c0").x[:5]
    canvas = method.take_off(model, x, torch.Generator().manual_seed(0), redrawn=False)
    latents = method.take_off(model, x, torch.Generator().manual_seed(0), redrawn=True)
    assert canvas.shape == x.shape
    assert latents.shape == (5, 64)
    drawn = method.put_on(model, latents, torch.Generator().manual_seed(1))
    style = method.draw(model, 5, torch.Generator().manual_seed(1)).style
    assert torch.equal(drawn, method.generate(model, Draws(latents, style)))


def test_a_conditional_generator_is_told_the_label_that_the_head_reads():
    method = make(lens="none", conditional=True)
    model = method.module(SMALL).eval()
    x = make_population().data("c0").x[:5]
    content = method.take_off(model, x, torch.Generator().manual_seed(0), redrawn=False)
    assert content.shape == (5, 64 + 1)
    assert content[:, -1].tolist() == model(x).argmax(dim=1).tolist()


def test_content_is_encoded_without_the_lens():
    method = make()
    model = method.module(SMALL).eval()
    x = make_population().data("c0").x[:5]
    with torch.no_grad():
        model.generator.lens.tones_by_style.weight.zero_()
        light = method.encode(model, x)
        model.generator.lens.ground.fill_(1)
        model.generator.lens.ink.fill_(0)
        dark = method.encode(model, 1 - x)
    assert torch.allclose(light.shared, dark.shared, atol=1e-5)
    assert not torch.allclose(light.local, dark.local, atol=1e-3)


# -- training


def loaded(method, population):
    info = RoundInfo(1, 2, 0, population.info)
    model = method.load(method.personal(method.start(info), first_state(method, info)), info.data)
    return model.train(), info


def first_state(method, info):
    return method.first_state(method.start(info), info)


def gradients(loss, model):
    model.zero_grad()
    loss.backward()
    return {
        name.split(".")[0]
        for name, p in model.named_parameters()
        if p.grad is not None and bool(p.grad.abs().sum() > 0)
    }


@pytest.mark.parametrize("variant", ["duotone", "paper"])
def test_discriminators_minimise_both_hinges_plus_lambda_times_twins(variant):
    method, population = make(variant=variant, contrast=0.3), make_population()
    model, _ = loaded(method, population)
    again, data = copy.deepcopy(model), population.data("c0")  # spectral norm moves when it is used
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        found = float(method._judging_loss(model, data.x[:8], data.y[:8], 4, None, generator))
        generator.manual_seed(0)
        draws = method.draw(again, 4, generator)
        some = torch.arange(8)
        drawn = again.draw(draws.content[some // 2], draws.style[(some + 1) // 2 % 4])
        seen = torch.cat([data.x[:8], drawn])
        seen = seen + 0.01 * torch.randn(seen.shape, generator=generator)
        features = again.content(seen), again.style(seen)
        judges = again.content, again.style
        scores = [d.judge(f).double().numpy() for d, f in zip(judges, features, strict=True)]
        codes = [d.projector(f[8:]) for d, f in zip(judges, features, strict=True)]
    hinges = sum(np.maximum(1 - s[:8], 0).mean() + np.maximum(1 + s[8:], 0).mean() for s in scores)
    contrast = twins(codes[0][0::2], codes[0][1::2]) + twins(codes[1][1::2], codes[1][[2, 4, 6, 0]])
    assert min(hinges, contrast) > 0.1
    assert found == pytest.approx(hinges + 0.3 * contrast, rel=1e-3)


@pytest.mark.parametrize("alone", [False, True])
def test_the_generator_minimises_minus_what_both_discriminators_say(alone):
    method, population = make(), make_population()
    model, _ = loaded(method, population)
    again, generator = copy.deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        found = float(method._drawing_loss(model, 8, None, generator, by_style_alone=alone))
        generator.manual_seed(0)
        draws = method.draw(again, 8, generator)
        drawn = again.draw(draws.content, draws.style)
        drawn = drawn + 0.01 * torch.randn(drawn.shape, generator=generator)
        by_style = float(again.style.judge(again.style(drawn)).mean())
        by_content = float(again.content.judge(again.content(drawn)).mean())
    assert min(abs(by_style), abs(by_content)) > 1e-3
    assert found == pytest.approx(-by_style if alone else -by_style - by_content, rel=1e-4)


def test_each_player_steps_along_its_own_sum(monkeypatch):
    method, population = make(batch_size=24), make_population()
    model, info = loaded(method, population)
    monkeypatch.setattr(method, "_judging_loss", lambda *_: torch.tensor(2.0))
    monkeypatch.setattr(method, "_reading_loss", lambda *_: torch.tensor(3.0))
    monkeypatch.setattr(method, "_drawing_loss", lambda *_, **__: torch.tensor(5.0))
    steps = []
    monkeypatch.setattr(
        "duotone.methods.padpaf.adversarial._descend",
        lambda _, parameters, loss: steps.append((len(parameters), float(loss))),
    )
    method._play(model, population.data("c0"), info, pull=lambda: torch.tensor(7.0))
    assert [loss for _, loss in steps] == [2 + 3 + 7, 5 + 7]
    steps.clear()
    method._play(model, population.data("c0"), info)
    assert [loss for _, loss in steps] == [2 + 3, 5]


def test_the_discriminators_loss_reaches_no_generator_and_the_generators_reaches_the_vectorizer():
    method, population = make(), make_population()
    model, _ = loaded(method, population)
    data, generator = population.data("c0"), torch.Generator().manual_seed(0)
    judging = method._judging_loss(model, data.x[:8], data.y[:8], 4, None, generator)
    assert gradients(judging, model) == {"content", "style"}
    assert gradients(method._reading_loss(model, data.x[:8], data.y[:8]), model) == {"head"}
    drawing = method._drawing_loss(model, 8, None, generator)
    assert {"generator", "vectorizer"} <= gradients(drawing, model)
    alone = method._drawing_loss(model, 8, None, generator, by_style_alone=True)
    reached = gradients(alone, model)
    assert {"generator", "vectorizer"} <= reached
    assert "content" not in reached


def test_without_labels_the_head_learns_nothing_and_its_scale_does():
    method, population = make(), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    server, data = method.start(info), population.data("c0").without_labels()
    update, _ = method.client_update(server, first_state(method, info), data, info)
    assert torch.equal(update.shared["head.weight"], server.shared["head.weight"])
    name = "scale.running_mean"
    assert not torch.equal(update.shared[name], server.shared[name])


@pytest.mark.parametrize("turns", [1, 3])
def test_the_generator_steps_once_in_so_many_turns(turns, monkeypatch):
    method, population = make(turns=turns, batch_size=8), make_population()
    model, info = loaded(method, population)
    steps = []
    real = PaDPaF._drawing_loss
    monkeypatch.setattr(
        PaDPaF, "_drawing_loss", lambda *args, **named: steps.append(1) or real(*args, **named)
    )
    method._play(model, population.data("c0"), info)  # 24 samples: three batches
    assert len(steps) == 3 // turns


def test_without_contrast_the_projectors_do_not_learn():
    method, population = make(contrast=0), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    server = method.start(info)
    update, _ = method.client_update(server, first_state(method, info), population.data("c0"), info)
    for name, tensor in update.shared.items():
        if ".projector." in name:
            assert torch.equal(tensor, server.shared[name]), name


def test_a_client_fits_its_lens_once():
    method, population = make(lr=1e-9), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    server, data = method.start(info), population.data("c0")
    dark = replace(data, x=1 - data.x)
    _, state = method.client_update(server, first_state(method, info), dark, info)
    assert float(state.local["generator.lens.ground"]) > float(state.local["generator.lens.ink"])
    _, later = method.client_update(server, state, data, replace(info, round=2))
    assert torch.allclose(
        later.local["generator.lens.ground"], state.local["generator.lens.ground"], atol=1e-4
    )


@pytest.mark.parametrize("settings", [{"lens": "plain"}, {"share": "all"}])
def test_a_lens_that_is_everybodys_or_plain_is_not_fitted(settings):
    method, population = make(lr=1e-9, **settings), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    update, state = method.client_update(
        method.start(info), first_state(method, info), population.data("c0"), info
    )
    frame = {**update.shared, **state.local}["generator.lens.frame"]
    assert torch.allclose(frame, torch.eye(2, 3), atol=1e-4)


def test_a_newcomer_learns_its_own_part_and_nothing_shared_moves():
    method, population = make(newcomer_epochs=1), make_population()
    info = RoundInfo(2, 2, 0, population.info)
    server = method.start(info)
    before = {name: tensor.clone() for name, tensor in server.shared.items()}
    state = method.join(server, population.data("c3").without_labels(), info)
    start = first_state(method, info)
    for name in ("vectorizer.layers.0.weight", "generator.lens.ink", "style.layers.0.bias"):
        assert not torch.equal(state.local[name], start.local[name]), name
    for name, tensor in server.shared.items():
        assert torch.equal(tensor, before[name])
    used = method.load(method.personal(server, state), info.data).state_dict()
    changed = {name for name, tensor in before.items() if not torch.equal(used[name], tensor)}
    assert all(name.startswith("scale.") for name in changed)


def test_a_newcomer_bends_its_tones_and_a_member_does_not():
    method, population = make(newcomer_epochs=1), make_population()
    info = RoundInfo(1, 2, 0, population.info)
    server, data = method.start(info), population.data("c3").without_labels()
    _, member = method.client_update(server, first_state(method, info), data, info)
    assert not member.local["generator.lens.curve"].any()
    newcomer = method.join(server, data, info)
    assert newcomer.local["generator.lens.curve"].any()
    _, member = method.client_update(server, first_state(method, info), data, info)
    assert not member.local["generator.lens.curve"].any()


def test_a_newcomers_lens_learns_fast_beside_content_that_is_fixed(monkeypatch):
    rates = []

    def adam(groups, betas):
        if len(groups) > 2:
            slowest = min(lr for _, lr in groups)
            rates.append(sorted({round(lr / slowest) for _, lr in groups}))
        return Adam(groups, betas)

    monkeypatch.setattr("duotone.methods.padpaf.players.Adam", adam)
    population = make_population()
    info, data = RoundInfo(1, 2, 0, population.info), population.data("c3")
    for share in ("partial", "none"):
        method = make(newcomer_epochs=2, share=share)
        method.join(method.start(info), data, info)
    assert rates == [[1, 8, 20]] * 2


@pytest.mark.parametrize(
    ("settings", "epochs"),
    [({}, 0), ({"lens": "plain"}, 3), ({"variant": "paper"}, 3), ({"share": "none"}, 3)],
)
def test_a_newcomer_trains_only_where_a_fitted_lens_is_not_enough(settings, epochs):
    method = make(**settings)
    assert method._newcomer_epochs(method.module(SMALL)) == epochs


def test_a_member_keeps_its_style_and_takes_the_scale_of_its_own_features():
    method, population = make(), make_population()
    info = RoundInfo(2, 2, 0, population.info)
    server, x = method.start(info), population.data("c0").x
    state = ClientState(first_state(method, info).local, {"started": torch.tensor(1)})
    served = method.before_use(server, state, population.data("c0"), info)
    for name, tensor in state.local.items():
        assert torch.equal(served.local[name], tensor), name
    model = method.load(method.personal(server, served), info.data).eval()
    with torch.no_grad():
        scaled = model.scale(model.content_features(x))
    assert scaled.mean(dim=0).abs().max() < 1e-2


@pytest.mark.parametrize("asked", ["own", "all"])
def test_pictures_are_asked_for_by_labels_that_the_client_has_or_by_all(asked, monkeypatch):
    method, population = make(conditional=True, asked=asked, epochs=4), make_population()
    model, info = loaded(method, population)
    data = population.data("c0")
    data = replace(data, y=torch.where(data.y == 2, NO_LABEL, data.y))
    seen = set()
    real = model.draw
    monkeypatch.setattr(
        model, "draw", lambda c, s, label: seen.update(label.tolist()) or real(c, s, label)
    )
    method._play(model, data, info)
    assert seen == ({0, 1, 3} if asked == "own" else {0, 1, 2, 3})


@pytest.mark.parametrize(
    "settings",
    [
        {"variant": "paper"},
        {"variant": "paper", "conditional": True, "server_optimizer": "adam"},
        {"conditional": True, "norms": "local"},
        {"share": "all"},
        {"share": "none", "lens": "none"},
        {"batch_size": 1},
    ],
)
def test_every_form_trains_and_draws_finite_pictures(settings):
    method, population, states = make(**settings), make_population(), MemoryStates()
    *_, last = federate(method, population, rounds=2, states=states)
    state = states.get("c0")
    model = method.load(method.personal(last.server, state), population.info).eval()
    label = torch.tensor([0, 1, 2]) if method.config.conditional else None
    drawn = method.generate(model, method.draw(model, 3, torch.Generator()), label)
    assert drawn.isfinite().all()
    assert math.isfinite(last.updates[0].metrics["train_loss"])
    codes = method.encode(model, population.data("c0").x)
    assert codes.shared.shape == codes.local.shape
