// The federation at a glance: one content in every client's hand, or what they disagree about.

import { el } from "./dom.js";
import { picture } from "./parts.js";
import { address } from "./state.js";

const MOST = 8;

function drawnBy(own, href) {
  return el(
    "a",
    { class: "hand", href, "aria-label": `drawn by client ${own.client}; move its inks` },
    picture(own.picture, "", "large"),
    el("span", { class: "caption" }, el("b", {}, own.client), own.group ? ` ${own.group}` : ""),
  );
}

// The first content, as every client would draw it.
async function hands({ facts, state, server }) {
  const [first] = facts.clients;
  const isRandom = facts.can.draw === "draws";
  const question = {
    client: first.name,
    seed: isRandom ? 0 : undefined,
    label: facts.can.labels ? 0 : undefined,
  };
  const found = await server.ask("everybody", question);
  const shown = found.clients.filter((own) => own.picture).slice(0, MOST);
  if (!shown.length) return [];
  const link = (client) => address({ view: "inks", run: state.run, client });
  return [
    el("h3", {}, "One content, every client's hand"),
    el("div", { class: "hands" }, shown.map((own) => drawnBy(own, link(own.client)))),
    el(
      "p",
      { class: "small" },
      "What is shared is the same in all of them; what differs is local. ",
      el("a", { href: link(first.name) }, "Move both inks →"),
    ),
  ];
}

function disputedSample(one, clients, state) {
  const asked = one.answers[1].clients[0]; // not one of the many: whose answer is worth a question
  const words = one.answers.map((own) => `${own.answer} (${own.clients.length})`).join(", ");
  return el(
    "a",
    {
      class: "hand",
      href: address({ view: "sample", run: state.run, client: asked, of: one.owner, sample: one.sample }),
      "aria-label": `sample ${one.sample} of client ${one.owner}: clients say ${words}; ask client ${asked} why`,
    },
    one.picture
      ? picture(one.picture, "", "large")
      : el("span", { class: "no-picture" }, `${one.owner}, row ${one.sample}`),
    one.answers.map((own, rank) =>
      el(
        "span",
        { class: `vote ${rank ? "other" : ""}` },
        el("b", {}, own.answer, own.answer === one.label ? " ✓" : ""),
        el("span", {}, `${own.clients.length} of ${clients}`),
      ),
    ),
  );
}

// The samples that fewest clients answer alike.
async function disagreements({ state, server }) {
  const { samples, tried, clients } = await server.ask("disputed");
  if (!tried) return [];
  if (!samples.length)
    return [el("p", { class: "small" }, `On ${tried} test samples that were tried, all ${clients} clients decide alike.`)];
  return [
    el("h3", {}, "What clients disagree about"),
    el("div", { class: "hands" }, samples.map((one) => disputedSample(one, clients, state))),
    el(
      "p",
      { class: "small" },
      `The most disputed of ${tried} test samples, and how many of ${clients} clients say what; ✓ is right. Follow one to ask why.`,
    ),
  ];
}

// Fills in when it is there; a run without samples at hand has the rest of the page.
export function glance(view) {
  const waiting = el("p", { class: "small waiting" }, "Every client is being asked …");
  const box = el("section", { class: "glance" }, waiting);
  const pieces = view.facts.can.draw && view.facts.is_image ? hands(view) : disagreements(view);
  pieces.then((found) => box.replaceChildren(...found)).catch(() => box.remove());
  return box;
}
