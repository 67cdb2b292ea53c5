// One client: its card, its samples, where it disagrees; and another one beside it.

import { choice, el, length, note, percent } from "../dom.js";
import { bar, chosenClient, clientLink, clientPicker, picture, score, tile } from "../parts.js";
import { address, go } from "../state.js";

const MOST = 60;

function habits(card) {
  if (card.habits.length < 2) return null;
  const most = Math.max(...card.habits.flatMap((own) => [own.own, own.members, own.held ?? 0]), 0.01);
  return el(
    "figure",
    { class: "habits" },
    el("h4", {}, "What it says of anything"),
    el(
      "p",
      { class: "small" },
      "Vermilion: this client. Blue-green: the members' mean. Tick: the share it holds itself.",
    ),
    el(
      "ul",
      { class: "bars pairs" },
      card.habits.map((own) => {
        const item = bar(own.name, own.own / most, percent(own.own), "local");
        const track = item.querySelector(".bar-track");
        track.append(
          el("span", { class: "bar-fill shared below", style: { width: length(own.members / most) } }),
        );
        if (own.held !== null)
          track.append(
            el("span", {
              class: "tick",
              title: `holds ${percent(own.held)}`,
              style: { left: length(own.held / most) },
            }),
          );
        return item;
      }),
    ),
  );
}

function relatives(card) {
  const list = (words, pairs) =>
    pairs.length
      ? el(
          "p",
          {},
          `${words}: `,
          pairs.flatMap(([name, apart], place) => [
            place ? ", " : "",
            clientLink(name),
            ` (${apart.toFixed(2)})`,
          ]),
        )
      : null;
  const concepts = card.concepts.length
    ? [
        el("h4", {}, "Concepts it is made of"),
        el(
          "ul",
          { class: "bars" },
          card.concepts.map(([name, own, mean]) =>
            bar(`concept ${name}`, own, `${percent(own)} (members ${percent(mean)})`, "local"),
          ),
        ),
      ]
    : null;
  return [
    card.farthest[0]?.[1] < 0.005
      ? null
      : [list("Answers most like", card.nearest), list("Answers least like", card.farthest)],
    card.codes.length
      ? el(
          "p",
          {},
          "Its local code lies apart in ",
          card.codes
            .map((own) => `dimension ${own.dimension} (${own.away.toFixed(1)} deviations)`)
            .join(", "),
          ".",
        )
      : null,
    concepts,
  ];
}

function prototypes({ card, pictures }) {
  if (!pictures.length) return null;
  return [
    el("h4", {}, "Its most typical own samples"),
    el(
      "div",
      { class: "tiles-grid" },
      pictures.map((uri, place) =>
        el(
          "figure",
          { class: "tile" },
          picture(uri, `class ${card.prototypes[place][0]}`),
          el("figcaption", { class: "caption" }, card.prototypes[place][0]),
        ),
      ),
    ),
  ];
}

function samples(client, state, server) {
  const box = el("div", { class: "samples" });
  let only = ["unlike", "wrong"].includes(state.only) ? state.only : "all";
  let start = 0;
  const load = async () => {
    let found;
    try {
      found = await server.ask("grid", { client: client.name, only, start });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      box.replaceChildren(note(error.message));
      return null;
    }
    const words = (count) => ` (${count})`;
    const page = found.samples.map((own) =>
      tile({
        uri: own.picture,
        caption: own.label === null ? own.answer : own.is_wrong ? `${own.label} → ${own.answer}` : own.answer,
        remark: own.is_unlike ? `others: ${own.reference}` : null,
        href: address({ view: "sample", run: state.run, client: client.name, sample: own.sample }),
        label: `sample ${own.sample}: ${client.name} says ${own.answer}, ${found.compared_with} ${own.reference}, the label is ${own.label}`,
        mark: own.is_wrong ? "wrong" : own.is_unlike ? "unlike" : "",
      }),
    );
    const turn = (words, to, enabled) =>
      el(
        "button",
        {
          type: "button",
          disabled: !enabled,
          onclick: () => {
            start = to;
            load();
          },
        },
        words,
      );
    box.replaceChildren(
      el(
        "div",
        { class: "controls" },
        choice(
          "show",
          [
            ["all", `all${words(found.counts.all)}`],
            ["unlike", `unlike ${found.compared_with}${words(found.counts.unlike)}`],
            ["wrong", `wrong${words(found.counts.wrong)}`],
          ],
          only,
          (value) => {
            only = value;
            start = 0;
            load();
          },
        ),
      ),
      page.length ? el("div", { class: "tiles-grid" }, page) : el("p", { class: "small" }, "There are none."),
      found.total > MOST
        ? el(
            "p",
            { class: "turn" },
            turn("← earlier", start - MOST, start > 0),
            ` ${start + 1} to ${start + page.length} of ${found.total} `,
            turn("later →", start + MOST, start + MOST < found.total),
          )
        : "",
    );
    return found;
  };
  return { box, loaded: load() };
}

async function portrait(client, { facts, state, server }, data) {
  const box = el(
    "article",
    { class: "portrait" },
    el("h3", {}, `Client ${client.name}`),
    el(
      "p",
      { class: "small" },
      `${client.role}${client.group ? `, group ${client.group}` : ""}, ${client.samples.toLocaleString("en")} training samples, ${facts.headline.metric} ${score(facts, client.score)}`,
    ),
  );
  try {
    const found = await server.ask("client", { client: client.name });
    data[client.name] = found.card;
    box.append(
      ...[
        el("p", { class: "lead" }, found.card.sentences.slice(1).join(" ")),
        habits(found.card),
        relatives(found.card),
        prototypes(found),
      ]
        .flat(2)
        .flat()
        .filter(Boolean),
    );
  } catch (error) {
    if (error.name === "AbortError") throw error;
    box.append(note(error.message));
  }
  const why = await server.whyNoSamples();
  if (why) {
    box.append(note(why));
    return box;
  }
  const { box: grid, loaded } = samples(client, state, server);
  box.append(el("h4", {}, "Its test samples"), grid);
  await loaded;
  return box;
}

export async function show(view) {
  const { place, facts, state, seen } = view;
  const client = chosenClient(facts, state);
  const other = facts.clients.find((own) => own.name === state.beside && own.name !== client.name);
  place.append(
    el(
      "div",
      { class: "controls" },
      clientPicker("Client", facts, client.name, (name) => go({ client: name, sample: "" })),
      clientPicker("beside it", facts, other?.name, (name) => go({ beside: name }), "nobody"),
    ),
  );
  const data = {};
  const both = el("div", { class: other ? "side-by-side" : "alone" });
  place.append(both);
  both.append(await portrait(client, view, data));
  if (other) both.append(await portrait(other, view, data));
  seen.json = () => data;
  seen.csv = () =>
    Object.entries(data).flatMap(([name, card]) =>
      card.habits.map((own) => ({
        client: name,
        class: own.name,
        says: own.own,
        members: own.members,
        holds: own.held,
      })),
    );
}
