// Two inks, live: sliders for what is shared and what is local, and what becomes of them.

import { newest } from "../api.js";
import { el, note } from "../dom.js";
import { answerBars, chosenClient, clientPicker, picture } from "../parts.js";
import { go, keep } from "../state.js";

const INKS = {
  shared: ["Shared", "the same meaning for every client"],
  local: ["Local", "special to one client"],
};

const numbers = (text) => (text ? text.split(",").map(Number) : null);

// The sliders of one part; `changed` is called while one moves.
function inkSliders(part, axes, kept, changed, names) {
  const places = kept?.length === axes.length ? kept : axes.map((axis) => axis.place);
  const rows = axes.map((axis, place) => {
    const name = names?.(place) ?? axis.name;
    const shown = el("output", {}, places[place].toFixed(2));
    const slider = el("input", { type: "range", min: axis.low, max: axis.high, step: (axis.high - axis.low) / 200, value: places[place], "aria-label": `${part} ${name}` });
    slider.value = places[place]; // the attributes of the range are known by now
    slider.addEventListener("input", () => {
      places[place] = Number(slider.value);
      shown.textContent = places[place].toFixed(2);
      changed();
    });
    const put = (value) => {
      slider.value = places[place] = value;
      shown.textContent = value.toFixed(2);
    };
    return { put, axis, row: el("label", { class: "slider" }, el("span", {}, name), slider, shown) };
  });
  const [title, words] = INKS[part];
  const box = el(
    "div",
    { class: `ink ${part}`, role: "group", "aria-label": `${part} part` },
    el("h3", {}, title, el("span", { class: "small" }, ` ${words}`)),
    rows.length ? rows.map((own) => own.row) : el("p", { class: "small" }, `This run has no ${part} code.`),
  );
  return {
    box,
    text: () => places.map((value) => value.toFixed(4)).join(",") || undefined,
    reset: () => rows.forEach((own) => own.put(own.axis.place)),
    random: () => rows.forEach((own) => own.put(own.axis.low + Math.random() * (own.axis.high - own.axis.low))),
  };
}

function read(found, facts) {
  return [
    found.read ? el("div", {}, el("h4", {}, "The client reads the picture as"), answerBars(found.read, facts.class_names, { most: 3 })) : null,
    found.answer ? el("div", {}, el("h4", {}, "Its answer to the sample, with this local code"), answerBars(found.answer, facts.class_names, { most: 3, ink: "local" })) : null,
  ];
}

function everybodyStrip(found) {
  return el(
    "div",
    { class: "strip" },
    found.clients.map((own) =>
      el(
        "figure",
        {},
        own.picture ? picture(own.picture, `drawn by client ${own.client}`, "medium") : null,
        el("figcaption", {}, el("b", {}, own.client), own.group ? ` ${own.group}` : "", own.read ? el("div", {}, found.isDrawn ? `reads ${own.read.answer}` : `says ${own.read.answer}`) : ""),
      ),
    ),
  );
}

function waySection({ facts, state, server, client, question }) {
  const first = facts.clients.find((own) => own.name !== client.name) ?? client;
  const other = facts.clients.find((own) => own.name === state.other) ?? first;
  const box = el("div", {});
  const load = async (name) => {
    const found = await server.ask("between", { client: client.name, sample: question.sample, of: question.of, upload: question.upload, seed: question.seed, label: question.label, other: name });
    box.replaceChildren(
      ...found.rows.map((row) => el("div", { class: "way" }, el("span", { class: "small" }, `drawn by ${row.client}`), el("div", { class: "strip tight" }, row.pictures.map((uri, step) => picture(uri, `step ${step + 1} of ${row.pictures.length}`, "medium"))))),
    );
  };
  const words = facts.can.draw === "draws" ? "from this draw to the next one, drawn by it and by" : "from this sample to the first one of client";
  const pick = clientPicker(words, facts, other.name, (name) => { keep({ other: name }); load(name); });
  return { section: el("section", { class: "panel" }, el("h3", {}, "The way from A to B"), el("div", { class: "controls" }, pick), box), load: () => load(other.name) };
}

export async function show({ place, facts, state, server, signal, seen }) {
  const client = chosenClient(facts, state);
  const question = {
    client: client.name,
    sample: Number(state.sample ?? 0),
    of: state.of || undefined,
    upload: state.upload || undefined,
    seed: facts.can.draw === "draws" ? Number(state.seed ?? 0) : undefined,
    label: facts.can.labels ? Number(state.label ?? 0) : undefined,
  };
  place.append(el("div", { class: "controls" }, clientPicker("Client", facts, client.name, (name) => go({ client: name, sample: 0, of: "" }))));
  if (!facts.can.draw && !facts.can.exchange) {
    place.append(note(`${facts.method} has no decoder and no local code that could be exchanged, so there is nothing to move here. Its maps and answers are in the other views.`));
    return;
  }
  const why = await server.whyNoSamples();
  if (why && !facts.can.maps && facts.can.draw !== "draws") {
    place.append(note(why));
    return;
  }
  if (why && facts.can.draw === "codes") place.append(note(`${why} The sliders start from the client's most typical code.`));
  const axes = await server.ask("sliders", question);
  const shot = el("img", { class: "shot huge", alt: "what the codes stand for" });
  const said = el("div", { class: "said", "aria-live": "polite" });
  const strip = el("div", {});
  const latest = newest(signal);
  const latestStrip = newest(signal);
  const data = { client: client.name };
  let waiting;

  const asked = () => ({ ...question, shared: inks.shared.text(), local: inks.local.text() });
  const everybody = () => latestStrip(async (own) => {
    data.everybody = await server.ask("everybody", asked(), own);
    strip.replaceChildren(everybodyStrip({ ...data.everybody, isDrawn }));
  }).catch((error) => { if (error.name !== "AbortError") strip.replaceChildren(note(error.message)); });
  const update = () => {
    keep({ shared: inks.shared.text(), local: inks.local.text() });
    clearTimeout(waiting);
    waiting = setTimeout(everybody, 150);
    return latest(async (own) => {
      const found = await server.ask("drawn", asked(), own);
      data.drawn = found;
      if (found.picture) shot.src = found.picture;
      said.replaceChildren(...read(found, facts).filter(Boolean));
    }).catch((error) => { if (error.name !== "AbortError") said.replaceChildren(note(error.message)); });
  };
  const concept = facts.can.concepts ? (number) => `concept ${number}` : null;
  const isDrawn = Boolean(facts.can.draw);
  const inks = {
    shared: inkSliders("shared", isDrawn ? axes.shared : [], numbers(state.shared), update),
    local: inkSliders("local", axes.local, numbers(state.local), update, concept),
  };
  if (!isDrawn) inks.shared.text = () => undefined;
  const act = (words, change) => el("button", { type: "button", onclick: () => { change(); update(); } }, words);
  const buttons = el(
    "p",
    { class: "turn" },
    act("Reset", () => { inks.shared.reset(); inks.local.reset(); }),
    isDrawn ? act("Random shared", inks.shared.random) : null,
    act("Random local", inks.local.random),
    facts.can.draw === "draws" ? el("button", { type: "button", onclick: () => go({ seed: question.seed + 1 }) }, "Another draw") : null,
  );
  if (!isDrawn) inks.shared.box.replaceChildren(el("h3", {}, "Shared"), el("p", { class: "small" }, `${facts.method} cannot draw from its codes; the sample itself stays as it is, and its local code can be moved.`));
  const original = (!why || question.upload) && facts.can.draw !== "draws" ? await server.ask("sample", { client: client.name, sample: question.sample, of: question.of, upload: question.upload }).catch(() => null) : null;
  if (original) facts.counts = { ...facts.counts, [original.owner]: original.samples ?? Infinity };
  place.append(
    el(
      "div",
      { class: "desk" },
      el(
        "div",
        { class: "drawn" },
        isDrawn ? el("figure", {}, shot, el("figcaption", {}, `drawn by client ${client.name}`)) : null,
        original?.picture ? el("figure", { class: "original" }, picture(original.picture, "the sample", isDrawn ? "medium" : "huge"), el("figcaption", {}, `the sample (${original.label ?? "own image"})`)) : null,
        buttons,
      ),
      inks.shared.box,
      inks.local.box,
      said,
    ),
    el("section", { class: "panel" }, el("h3", {}, isDrawn ? "The same content, every client" : "The same local code, every client"), el("p", { class: "small" }, facts.can.draw === "draws" ? "The draw as it stands above, drawn and read by every client." : isDrawn ? "The shared code as it stands above, with each client's own typical local code, drawn and read by that client." : "Every client's answer to the sample with the local code as it stands above."), strip),
  );
  seen.json = () => ({ ...data, ...asked() });
  seen.csv = () => ["shared", "local"].flatMap((part) => (asked()[part] ?? "").split(",").map((value, place) => ({ part, slider: axes[part][place]?.name, place: Number(value) })));
  if (isDrawn) seen.png = () => drawnCanvas(shot);
  await update();
  if (isDrawn && facts.clients.length > 1) {
    const way = waySection({ facts, state, server, client, question });
    place.append(way.section);
    await way.load();
  }
}

function drawnCanvas(shot) {
  const made = el("canvas", { width: shot.naturalWidth * 4, height: shot.naturalHeight * 4 });
  const pen = made.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(shot, 0, 0, made.width, made.height);
  return made;
}
