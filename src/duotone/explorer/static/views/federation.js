// The federation: what answers are made of, where clients lie, who is served worst.

import { choice, el, note, percent, table } from "../dom.js";
import { glance } from "../glance.js";
import { legendMark, markOf } from "../marks.js";
import { clientLink, score } from "../parts.js";
import { Scatter } from "../scatter.js";
import { go, keep } from "../state.js";

const PARTS = {
  sample: "what anybody would say of the input",
  habit: "what a client says of anything",
  reading: "what only this client sees in the input",
};

function shares(card) {
  const parts = Object.entries(card.shares);
  return el(
    "figure",
    { class: "shares" },
    el(
      "div",
      {
        class: "stack",
        role: "img",
        "aria-label": parts.map(([name, [value]]) => `${name} ${percent(value, 1)}`).join(", "),
      },
      parts
        .filter(([, [value]]) => value >= 0.0005)
        .map(([name, [value]]) => el("span", { class: `part ${name}`, style: { flexGrow: value } })),
    ),
    el(
      "dl",
      {},
      parts.map(([name, [value, low, high]]) =>
        el(
          "div",
          { class: name },
          el("dt", {}, name, " ", el("b", {}, percent(value, 1))),
          el("dd", {}, `${PARTS[name]} (${percent(low, 1)} to ${percent(high, 1)})`),
        ),
      ),
    ),
  );
}

function groupMarks(facts, series) {
  const groups = [...new Set(facts.clients.map((client) => client.group))];
  return new Map(groups.map((group, place) => [group, markOf(place, series)]));
}

function points(facts, map, marks) {
  return facts.clients
    .filter((client) => map.places[client.name])
    .map((client) => ({
      x: map.places[client.name][0],
      y: map.places[client.name][1],
      name: client.name,
      client,
      mark: { ...marks.get(client.group), isOpen: client.role === "newcomer" },
    }));
}

function legend(facts, marks) {
  const count = (group) => facts.clients.filter((client) => client.group === group).length;
  const newcomers = facts.clients.some((client) => client.role === "newcomer");
  return el(
    "p",
    { class: "legend" },
    marks.size > 1 && marks.size <= 16
      ? [...marks].map(([group, mark]) =>
          el("span", {}, legendMark(mark), ` ${group || "no group"} (${count(group)})`),
        )
      : null,
    newcomers ? el("span", {}, "open or dashed: newcomers") : null,
  );
}

function worst(facts) {
  const known = facts.clients.filter((client) => client.score !== null && client.score !== undefined);
  const sign = facts.headline.direction === "lower" ? -1 : 1;
  const order = [...known].sort((a, b) => sign * (a.score - b.score));
  return table(
    ["client", "group", "role", ">samples", `>${facts.headline.metric}`],
    order.map((client) => [
      clientLink(client.name),
      client.group || "–",
      client.role,
      client.samples.toLocaleString("en"),
      score(facts, client.score),
    ]),
  );
}

// Clients were dealt into groups; with as many groups as clients there is nothing to sum up.
function groups(facts) {
  const names = [...new Set(facts.clients.map((client) => client.group))];
  if (names.length < 2 || names.length === facts.clients.length) return null;
  const rows = names.map((name) => {
    const own = facts.clients.filter((client) => client.group === name);
    const scores = own.map((client) => client.score).filter((value) => value !== null && value !== undefined);
    const mean = scores.length ? scores.reduce((sum, value) => sum + value, 0) / scores.length : null;
    return [name || "no group", String(own.length), score(facts, mean)];
  });
  return [el("h3", {}, "Groups"), table(["group", ">clients", `>mean ${facts.headline.metric}`], rows)];
}

function mapOfClients({ facts, state, server, signal, seen, series }, maps) {
  const marks = groupMarks(facts, series);
  const words = el("p", { class: "small" });
  let current = maps.find((map) => map.by === state.by) ?? maps[0];
  let shown = [];
  const scatter = new Scatter(
    {
      label:
        "Map of clients. Arrow keys move it, plus and minus zoom; the table below leads to every client.",
      height: 440,
      radius: 9,
      pictureSize: 52,
      margin: 48,
      names: true,
      words: (place) =>
        `client ${shown[place].name} · ${shown[place].client.group || "no group"} · ${score(facts, shown[place].client.score)}`,
      onpick: (place) => go({ view: "client", client: shown[place].name }),
    },
    signal,
  );
  const pictures = new Map();
  const show = () => {
    shown = points(facts, current, marks);
    shown.forEach((point) => {
      point.picture = pictures.get(point.name);
    });
    words.textContent = current.is_flat
      ? `All clients lie in one place here: by their ${current.by} they do not differ.`
      : current.words;
    scatter.show(shown);
  };
  show();
  server
    .ask("thumbnails")
    .then((found) => {
      for (const [name, uri] of Object.entries(found.pictures)) {
        const image = new Image();
        image.onload = show;
        image.src = uri;
        pictures.set(name, image);
      }
    })
    .catch(() => {}); // without samples at hand the map has dots
  seen.png = () => scatter.canvas;
  return el(
    "figure",
    { class: "panel" },
    el("h3", {}, "Clients, by how they are alike"),
    el(
      "div",
      { class: "controls" },
      choice(
        "by",
        maps.map((map) => [map.by, map.by]),
        current.by,
        (by) => {
          current = maps.find((map) => map.by === by);
          keep({ by });
          scatter.reset();
          show();
        },
      ),
    ),
    scatter.element,
    legend(facts, marks),
    words,
  );
}

export async function show(view) {
  const { place, facts, server, seen } = view;
  const found = await server.ask("federation");
  const { card } = found;
  const parts = card ? [el("p", { class: "lead" }, card.sentences.join(" ")), shares(card)] : [note(found.note)];
  // What is drawn says more than what is answered, where there is something drawn.
  parts.splice(facts.can.draw ? 1 : 2, 0, glance(view));
  place.append(...parts);
  if (found.maps.length) place.append(mapOfClients(view, found.maps));
  place.append(...(groups(facts) ?? []), el("h3", {}, "Clients, worst served first"), worst(facts));
  seen.json = () => ({ federation: found, clients: facts.clients });
  seen.csv = () =>
    facts.clients.map((client) => {
      const places = Object.fromEntries(
        found.maps.flatMap((map) => [
          [`${map.by} x`, map.places[client.name]?.[0]],
          [`${map.by} y`, map.places[client.name]?.[1]],
        ]),
      );
      return { ...client, ...places };
    });
}
