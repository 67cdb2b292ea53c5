// The card of one answer: its sentence, its parts, where they come from.

import { el, note, signed, table } from "./dom.js";
import { clientLink, picture, signedBars } from "./parts.js";

function parts(card) {
  return el(
    "div",
    { class: "made-of" },
    el("h4", {}, "What the answer is made of"),
    table(
      ["", ">answer", ">mean", ">sample", ">habit", ">reading"],
      card.classes.map((own) => [
        own.name,
        own.answer.toFixed(2),
        own.mean.toFixed(2),
        signed(own.sample),
        signed(own.habit),
        signed(own.reading),
      ]),
    ),
    el(
      "p",
      { class: "small" },
      `answer = mean + sample + habit + reading, against ${card.reference}. Sample: what anybody would say of this input. Habit: what this client says of anything. Reading: what it sees in this input that others do not.`,
    ),
  );
}

function attributions(found, input) {
  const { card, pictures } = found;
  if (!pictures.sample && !pictures.reading) return null;
  const shot = (uri, words) => el("figure", {}, picture(uri, words, "large"), el("figcaption", {}, words));
  return el(
    "div",
    { class: "attributions" },
    el("h4", {}, "Where in the input it comes from"),
    el(
      "div",
      { class: "shots" },
      shot(input, "the sample"),
      pictures.sample ? shot(pictures.sample, "sample: anybody") : null,
      pictures.reading ? shot(pictures.reading, `reading: ${card.client} alone`) : null,
    ),
    el("p", { class: "small" }, `Vermilion pixels speak for ${card.answer}, blue-green ones against it.`),
  );
}

function features(card, names) {
  const found = card.sample_pixels;
  if (!found || !names || names.length !== found.values.length) return null;
  const pairs = names
    .map(([name], place) => [name, found.values[place]])
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .slice(0, 10);
  return [
    el("h4", {}, `Which features speak for ${card.answer}`),
    signedBars(pairs, (value) => signed(value, 3)),
  ];
}

// What is too small for the three digits shown is not worth a list.
const layers = (words, shares) =>
  shares && Math.max(...shares.values.map(Math.abs)) >= 0.0005
    ? [
        el("h4", {}, words),
        signedBars(
          shares.names.map((name, place) => [name, shares.values[place]]),
          (value) => signed(value, 3),
        ),
      ]
    : null;

function support(found) {
  const { card, pictures } = found;
  if (!card.support) return null;
  const shots = (pictures.support ?? []).map((uri, place) => {
    const own = card.support.nearest[place];
    return el(
      "figure",
      { class: "tile" },
      picture(uri, `own sample ${own.number}, ${own.label}`),
      el("figcaption", { class: "caption" }, own.label),
    );
  });
  return [
    el("h4", {}, "Its own nearest training samples"),
    shots.length
      ? el("div", { class: "tiles-grid" }, shots)
      : el("p", {}, card.support.nearest.map((own) => `${own.label} (#${own.number})`).join(", ")),
    el(
      "p",
      { class: "small" },
      `${card.support.agree} of ${card.support.nearest.length} agree with the answer.`,
    ),
  ];
}

function difference(found) {
  const other = found.card.difference;
  if (!other) return null;
  return el(
    "div",
    { class: "difference" },
    el(
      "h4",
      {},
      "Against ",
      clientLink(other.against),
      `, which says ${other.answer} (${other.probability.toFixed(2)})`,
    ),
    el(
      "p",
      {},
      `${other.margin}: ${signed(other.before)} with its own layers, ${signed(other.after)} with ${other.against}'s.`,
      other.only ? ` They differ in one layer only: ${other.only}.` : "",
      other.flips ? ` The nearest client that decides differently is ${other.flips}.` : "",
    ),
    other.layers
      ? signedBars(
          other.layers.names.map((name, place) => [name, other.layers.values[place]]),
          (value) => signed(value, 3),
        )
      : null,
    found.pictures.other
      ? el(
          "figure",
          {},
          picture(found.pictures.other, `as ${other.against} would have it`, "large"),
          el("figcaption", {}, `as ${other.against} would have it: ${other.picture_answer}`),
        )
      : null,
    other.controls.length
      ? el(
          "p",
          { class: "small" },
          "Beside: ",
          other.controls.map((own) => `${own.client} (${own.relation}) says ${own.answer}`).join("; "),
          ".",
        )
      : null,
  );
}

export function cardOf(found, input, names) {
  const { card } = found;
  const trust = Object.entries(card.faithfulness)
    .map(([name, value]) => `${name} ${value.toFixed(2)}`)
    .join(", ");
  return el(
    "article",
    { class: "why" },
    el("p", { class: "lead" }, card.sentences.join(" ")),
    attributions(found, input),
    parts(card),
    features(card, names),
    layers("Own layers instead of others'", card.layers),
    layers("What its codes add", card.codes),
    difference(found),
    support(found),
    el(
      "p",
      { class: "small" },
      trust ? `Faithfulness (1 is best): ${trust}. ` : "",
      `Needed: ${card.needed.join("; ")}.`,
    ),
    card.notes.map(note),
  );
}
