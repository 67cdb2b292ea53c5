// Pieces that several views show: pictures, answers, clients.

import { dropdown, el, length, percent } from "./dom.js";
import { address, read } from "./state.js";

export const picture = (uri, alt, size = "") =>
  el("img", { src: uri, alt, class: `shot ${size}`, loading: "lazy" });

export function clientPicker(words, facts, chosen, changed, nobody = null) {
  const options = facts.clients.map((client) => [
    client.name,
    client.group ? `${client.name} (${client.group})` : client.name,
  ]);
  return dropdown(words, nobody === null ? options : [["", nobody], ...options], chosen ?? "", changed);
}

export const chosenClient = (facts, state) =>
  facts.clients.find((client) => client.name === state.client) ?? facts.clients[0];

export const clientLink = (name) =>
  el("a", { href: address({ view: "client", run: read().run, client: name }) }, name);

export function score(facts, value) {
  if (value === null || value === undefined) return "–";
  return facts.headline.is_share ? percent(value, 1) : value.toPrecision(3);
}

// The likeliest classes of an answer as bars; of a number, the number.
export function answerBars(answer, names, { most = 4, ink = "shared", keep = [] } = {}) {
  if (!answer) return null;
  if (!answer.probabilities) return el("p", { class: "number" }, answer.answer ?? "–");
  const order = answer.probabilities.map((share, place) => [share, place]).sort((a, b) => b[0] - a[0]);
  const shown = order.filter(([, place], rank) => rank < most || keep.includes(names[place]));
  return el(
    "ul",
    { class: "bars" },
    shown.map(([share, place]) => bar(names[place], share, percent(share), ink)),
  );
}

export const bar = (name, share, text, ink = "shared") =>
  el(
    "li",
    {},
    el("span", { class: "bar-name" }, name),
    el(
      "span",
      { class: "bar-track" },
      el("span", { class: `bar-fill ${ink}`, style: { width: length(share) } }),
    ),
    el("span", { class: "bar-value" }, text),
  );

// Bars to both sides of zero.
export function signedBars(pairs, text) {
  const most = Math.max(...pairs.map(([, value]) => Math.abs(value)), 1e-9);
  return el(
    "ul",
    { class: "bars two-sided" },
    pairs.map(([name, value]) => {
      const width = length(Math.abs(value) / most / 2);
      const side = value < 0 ? { right: "50%" } : { left: "50%" };
      return el(
        "li",
        {},
        el("span", { class: "bar-name" }, name),
        el(
          "span",
          { class: "bar-track" },
          el("span", { class: `bar-fill ${value < 0 ? "shared" : "local"}`, style: { width, ...side } }),
        ),
        el("span", { class: "bar-value" }, text(value)),
      );
    }),
  );
}

// One sample in a grid; rows of tables have no picture and show their number.
export function tile({ uri, caption, remark, href, label, mark }) {
  return el(
    "a",
    { class: `tile ${mark ?? ""}`, href, "aria-label": label },
    uri ? el("img", { src: uri, alt: "", loading: "lazy" }) : el("span", { class: "no-picture" }, caption),
    uri ? el("span", { class: "caption" }, caption) : null,
    remark ? el("span", { class: "remark" }, remark) : null,
  );
}
