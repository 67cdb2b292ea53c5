"""FedDVA: a code of what is drawn, shared by all, and a code of how a client draws it.

Peng Yan, Guodong Long: *Personalization Disentanglement for Federated Learning: An explainable
perspective*, ICME 2023; chapter 4 of the first author's thesis.

**Shared:** both encoders, what draws content from z, and the linear head. **Local:** what draws the
client's marks or manner from c (in the paper: the whole decoder). **Explains:** z says what is in
an image, c how this client shows it; decoding z of one client with c of another swaps just that.

==============  ==========================================
paper           code
==============  ==========================================
θ               ``ServerState.shared``
φ_k             ``ClientState.local``: ``decoder.…``
q(z|x), f       ``DualVAE.encoder_z``
q(c|x, z), h    ``DualVAE.encoder_c`` on x and a plane made of z
p_k(x|z, c), g  ``DualVAE.decoder``, :func:`reconstruction`
R_z, α          :func:`kl_to_standard`, ``alpha``
R_c, β, ξ       :func:`regulariser`, ``beta``, ``xi``
==============  ==========================================

*Unsupervised.* Labels train a linear head on the means of [z; c]. With ``classify = "tune"`` they
also tune the encoder of z, late if a client has few; never the encoder of c, which could hide them.

*Members* use the server's encoders with their own decoder. *Newcomers* are encoded and classified
at once (zero-shot), and learn their local part from their own images (label-free); with local heads
they need labels (few-shot). The only buffer is ``own_codes``: some of a client's own c, which never
leave it and which :meth:`FedDVA.generate` draws from.

*Variants.* ``paper`` is Algorithm 1 with the loss of Eq. (4), its sign put right (as published, R_c
would be maximised without bound), the bound of Eq. (26) over a batch instead of all of D_k, the
larger side of Eq. (7) for every sample, and a one-piece decoder. ``code`` follows the authors'
repository: first the decoder and then z are trained with noise for c, then c with the decoder; KL
to the client's mean plus a hinge. In both, z took digit and mark, and c died, in runs with 0.2 % of
the paper's sample passes; docs/reproduction.md has longer ones. ``duotone`` keeps encoders, priors
and a local decoder of marks, with four repairs. The decoder has two branches, so that z cannot draw
marks nor c content; this is what decides. The divergence from the client's mixture is the true one
instead of its bound. Everything is trained together. And β grows from 0.1 to 2: a c that costs much
from the start may stay unused, a cheap one keeps digits. The constraint of Ineq. (5) has no visible
effect (``constraint = false`` separates as well); its larger side is that of the batch's means, for
a maximum over single noisy estimates is too large on average. The method's page has the ablation.

*What is shared.* In paper and thesis (§4.3) the whole decoder is local, because whoever has it can
draw samples. The default shares the branch that draws content: all can draw the content of an image
whose z they hold, but nobody's marks. ``paper`` and ``code`` share neither.

*Deviations* in all variants: pixels are Bernoulli (the authors' code has a focal Gaussian), the
networks have no BatchNorm, divergences lack the 0.01 that the authors' code adds to variances, and
Adam starts afresh in every round. z is detached before the second encoder, as in the authors' code
and not in Eq. (4): z is not changed to help c. ``paper`` has the printed depth and settings
(:mod:`duotone.methods.printed`); the widths of layers are not printed. The others have three
convolutions, a learning rate of 0.004 along a cosine, and one pass in each of 40 rounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.federation.local_training import (
    cosine_decay,
    is_labelled,
    labels_of,
    progress,
    task_loss,
    train,
)
from duotone.federation.method import Method
from duotone.federation.settings import GenerativeSettings, MethodSettings
from duotone.methods.feddva.dual_vae import PRINTED, Composition, DualVAE
from duotone.methods.feddva.terms import Variant, code_nats, reconstruction, regulariser
from duotone.networks.gaussian import Gaussian, kl_to_standard
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Draws,
    Latents,
    NewcomerRule,
    Params,
    RoundInfo,
    ServerState,
)


class FedDVAConfig(GenerativeSettings):
    """Settings of FedDVA."""

    variant: Variant = "duotone"
    """The method made to work, as published, or as in the authors' code."""
    shared_dim: int = Field(8, ge=1, le=65_536)
    """Dimensions of the shared code z."""
    local_dim: int = Field(4, ge=1, le=65_536)
    """Dimensions of the local code c."""
    composition: Literal["over", "modulate"] = "over"
    """How the decoder joins the codes: marks drawn over content, or content in a local manner."""
    alpha: float = Field(1.0, ge=0)
    """Weight of the regulariser of z."""
    beta: float | None = Field(None, ge=0)
    """Weight of the regulariser of c; by default the variant's: 2, 0.75 or 1."""
    beta_start: float | None = Field(None, ge=0)
    """The same in the first quarter of the rounds (duotone only); by default 0.1, or β itself."""
    xi: float | None = Field(None, ge=0)
    """Nats c is nearer to its client than to all; by default log 4, 8 per dimension, or 0.5."""
    constraint: bool = True
    """Whether R_c has the constraint of Ineq. (5), with `xi`."""
    classify: Literal["probe", "tune"] = "probe"
    """Whether labels train the head alone, or the encoder of z as well (late, if they are few)."""
    heads: Literal["shared", "local"] = "shared"
    """Whether all clients have one head, or each its own."""
    label_weight: float = Field(200.0, gt=0)
    """Weight of the labels against pixels when they tune the encoder of z."""
    newcomer_epochs: int = Field(10, ge=0)
    """Passes over its images in which a newcomer learns its local part."""
    lr: float = Field(4e-3, gt=0)
    """Local learning rate in the first round."""
    lr_end: float = Field(0.05, ge=0, le=1)
    """Share of the learning rate that is left in the last round; it falls along a cosine."""
    batch_size: int = Field(64, ge=1)
    """Samples per local step."""


# -- the method

ENCODERS = ("encoder_z.", "plane.", "encoder_c.")
LABELLED = 32
"""Labelled samples in each step."""
FEW_TUNE_FROM = 0.7
"""How much of a run is over when labels of less than half of the images begin to tune z."""


class FedDVA(Method):
    """Average the encoders; keep the decoder, which draws in the client's own manner."""

    name = "feddva"
    title = "a shared code of what is drawn and a local code of how, by two encoders"
    paper = "Yan, Long, Personalization Disentanglement for Federated Learning, ICME 2023"
    Config = FedDVAConfig
    config: FedDVAConfig
    rounds = 40
    own_model = "dual-vae"
    uses_unlabelled = True
    told = ("train_loss", "kl_shared", "kl_local", "kl_client")
    newcomer_rules = ("label-free", "zero-shot")

    def build(self, data: DataInfo) -> DualVAE:
        """Build encoders, decoder and head."""
        config = self.config
        composition: Composition = (
            config.composition if config.variant == "duotone" else "one-piece"
        )
        depth = PRINTED if config.variant == "paper" else 0
        return DualVAE(data, config.shared_dim, config.local_dim, composition, depth=depth)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share the encoders, what draws content, and the head unless it is local."""
        heads = ("head.",) if self.config.heads == "shared" else ()
        shared = (*ENCODERS, "decoder.content.", "decoder.trunk.", *heads)
        return super().is_shared(name, owner) and name.startswith(shared)

    @property
    def xi(self) -> float:
        """ξ of Inequation (5)."""
        if self.config.xi is not None:
            return self.config.xi
        # No client can be further from the mixture of all than the log of their number; with the
        # loose bound of Eq. (26) there is no such limit.
        own = {"duotone": math.log(4), "paper": 8.0 * self.config.local_dim, "code": 0.5}
        return own[self.config.variant]

    def beta(self, info: RoundInfo) -> float:
        """Return β of a round.

        With a large β from the start c may never learn to draw marks; with a small one to the end
        c may hold the digit where a client has no mark. So β grows. A c that modulates could do all
        of z's work, so its β is large throughout.
        """
        own = {"duotone": 2.0, "paper": 0.75, "code": 1.0}
        end = own[self.config.variant] if self.config.beta is None else self.config.beta
        if self.config.variant != "duotone":
            return end
        start = self.config.beta_start
        if start is None:
            start = 0.1 if self.config.composition == "over" else end
        grown = min(1.0, max(0.0, 4 * progress(info) - 1))
        return start + grown * (end - start)

    @classmethod
    def rules(cls, config: MethodSettings) -> tuple[NewcomerRule, ...]:
        """A head of one's own needs labels; everything else is learnt from images alone."""
        assert isinstance(config, FedDVAConfig)
        return ("few-shot",) if config.heads == "local" else cls.newcomer_rules

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train by the variant's schedule; a client that was away updates its decoder first."""
        model = self.load(self.personal(server, client), info.data)
        last = int(client.extra["round"]) if "round" in client.extra else info.round
        if self.config.variant == "duotone":
            if last < info.round - 1:
                self._fit(model, ("decoder.",), data, info, "return")
            loss = self._fit(model, ("",), data, info, "train")
        elif self.config.variant == "paper":  # Algorithm 1
            self._fit(model, ("decoder.",), data, info, "decoder")  # Eq. (9)
            loss = self._fit(model, (*ENCODERS, "head."), data, info, "encoders")  # Eq. (11)
        else:
            self._fit(model, ("decoder.", "head."), data, info, "decoder", noise=True)
            self._fit(model, ("encoder_z.",), data, info, "encoder-z", noise=True)
            parts = ("plane.", "encoder_c.", "decoder.", "head.")
            loss = self._fit(model, parts, data, info, "encoder-c")
        kept = {"round": torch.tensor(info.round)}
        return self.trained(model, data, loss, kept=kept, metrics=code_nats(model, data.x[:256]))

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Remember some codes of the client's images to draw from."""
        return self._with_codes(self.load(self.personal(server, client), info.data), data, client)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Learn what is local to a newcomer from its images; remember some codes to draw from."""
        state = self.first_state(server, info)
        model = self.load(self.personal(server, state), info.data)
        local = [name for name, _ in model.named_parameters() if name in state.local]
        first = replace(info, round=1)  # with the learning rate of a beginner
        epochs = self.config.newcomer_epochs
        self._fit(model, tuple(local), data, first, "newcomer", epochs=epochs)
        return self._with_codes(model, data, state)

    @torch.no_grad()
    def _with_codes(self, model: DualVAE, data: ClientData, state: ClientState) -> ClientState:
        model.eval()
        _, _, q_c = model.encode(data.x[: len(model.own_codes)], sample=False)
        codes = q_c.sample()
        model.own_codes.copy_(codes[torch.arange(len(model.own_codes)) % len(codes)])
        return ClientState(self.split(model)[1], state.extra)

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the means of both codes, with their standard deviations."""
        assert isinstance(model, DualVAE)
        q_z, _, q_c = model.encode(x, sample=False)
        return Latents(q_z.mean, q_c.mean, q_z.std, q_c.std)

    def predict_with(self, model: nn.Module, x: Tensor, local: Tensor) -> Tensor:
        """Return the head's scores of z and another c: it is linear in both."""
        assert isinstance(model, DualVAE)
        return model.answer(model.encode(x, sample=False)[0].mean, local)

    def decode(self, model: nn.Module, latents: Latents) -> Tensor:
        """Return the images that two codes stand for, drawn by this client."""
        assert isinstance(model, DualVAE)
        logits: Tensor = model.decoder(latents.shared, latents.local)
        return logits.sigmoid()

    @property
    def draws_labels(self) -> bool:
        """True: the head says which codes stand for a label."""
        return True

    def draw(self, model: nn.Module, count: int, generator: torch.Generator) -> Draws:
        """Draw z from its prior, and a number that chooses one of the client's own codes."""
        z = torch.randn(count, self.config.shared_dim, generator=generator)
        return Draws(z, torch.randn(count, 1, generator=generator))

    @torch.no_grad()
    def generate(self, model: nn.Module, draws: Draws, label: Tensor | None = None) -> Tensor:
        """Return new images as this client would draw them, with labels if they are given."""
        assert isinstance(model, DualVAE)
        z, kept = draws.content, len(model.own_codes)
        place = torch.special.ndtr(draws.style.squeeze(1)).mul(kept).long().clamp(max=kept - 1)
        c = model.own_codes[place.to(model.own_codes.device)]
        z = z.to(c.device)
        if label is not None:
            z = model.turned_to_label(z, c, label.to(z.device))
        return self.decode(model, Latents(z, c))

    def load(self, params: Params, data: DataInfo) -> DualVAE:
        """Put parameters into this process's network and return it."""
        model = super().load(params, data)
        assert isinstance(model, DualVAE)
        return model

    def _fit(
        self,
        model: DualVAE,
        parts: tuple[str, ...],
        data: ClientData,
        info: RoundInfo,
        phase: str,
        *,
        noise: bool = False,
        epochs: int | None = None,
    ) -> float:
        """Minimise Eq. (4) over the parameters whose names start so; return the mean loss."""
        chosen = {name: p for name, p in model.named_parameters() if name.startswith(parts)}
        labels = labels_of(data)
        known = is_labelled(labels).nonzero().squeeze(1)
        learns_labels = len(known) > 0 and "head.weight" in chosen
        begins = 0.0 if 2 * len(known) >= len(data) else FEW_TUNE_FROM
        tunes = self.config.classify == "tune" and progress(info) >= begins
        generator = info.generator("client", data.client, f"{phase}-labels")
        lr = self.config.lr * cosine_decay(info, self.config.lr_end)
        beta = None if noise else self.beta(info)

        def loss(_: nn.Module, x: Tensor, __: Tensor) -> Tensor:
            value = self._loss(model, x, beta)
            if learns_labels:
                # A batch of their own: among all images those with a label may be rare.
                rows = known[torch.randint(len(known), (LABELLED,), generator=generator)]
                value = value + self._label_loss(model, data.x[rows], labels[rows], tunes)
            return value

        return train(
            model,
            replace(data, y=labels),
            self.config.model_copy(update={"lr": lr}),
            info,
            loss=loss,
            parameters=chosen.values(),
            epochs=epochs,
            phase=phase,
        )

    def _loss(self, model: DualVAE, x: Tensor, beta: float | None) -> Tensor:
        """Return Eq. (4) of a batch; without β, c is noise: what z can explain alone."""
        q_z, z, q_c = model.encode(x, sample=True)
        c = torch.randn_like(q_c.mean) if beta is None else q_c.sample()
        value = reconstruction(model.decoder(z, c), x)
        value = value + self.config.alpha * kl_to_standard(q_z).mean()
        if beta is not None:
            value = value + beta * self._regulariser(q_c, c)
        return value

    def _regulariser(self, q_c: Gaussian, c: Tensor) -> Tensor:
        xi = self.xi if self.config.constraint else None
        return regulariser(self.config.variant, q_c, c, xi)

    def _label_loss(self, model: DualVAE, x: Tensor, y: Tensor, tunes: bool) -> Tensor:
        """Return the head's loss on drawn codes; where it tunes, it reaches the encoder of z."""
        with torch.set_grad_enabled(tunes):
            _, z, q_c = model.encode(x, sample=True)
        codes = torch.cat([z, q_c.sample().detach()], dim=1)
        return (self.config.label_weight if tunes else 1.0) * task_loss(model.head, codes, y)
