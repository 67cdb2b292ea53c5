// Two inks, live: sliders for what is shared and what is local, and what becomes of them.

import { newest } from "../api.js";
import { dropdown, el, note, percent } from "../dom.js";
import { inkSliders } from "../ink_sliders.js";
import { answerBars, chosenClient, clientPicker, picture } from "../parts.js";
import { go, keep } from "../state.js";

const PAUSE = 150; // milliseconds without a move, before every client is asked
const EVERYBODY = {
  draws: "The draw as it stands above, drawn and read by every client.",
  codes:
    "The shared code as it stands above, with each client's own typical local code, drawn and read by it.",
  answers: "Every client's answer to the sample with the local code as it stands above.",
  shares: "Every client's answer to the sample; each expects its own shares of the classes.",
};
const LOCAL = "special to one client";

const numbers = (text) => (text ? text.split(",").map(Number) : null);

const CONCEPTS = {
  title: "Concepts",
  words: "how much of the sample belongs to each; local",
  name: (axis, number) => `concept ${number}`,
};
const CLASSES = {
  title: "Class shares",
  words: "what this client expects before it sees a sample; local",
  shown: (places) => {
    const sum = places.reduce((all, place) => all + place, 0);
    return places.map((place) => percent(sum ? place / sum : 1 / places.length, 1));
  },
};

function read(found, facts) {
  return [
    found.read
      ? el(
          "div",
          {},
          el("h4", {}, "The client reads the picture as"),
          answerBars(found.read, facts.class_names, { most: 3 }),
        )
      : null,
    found.answer
      ? el(
          "div",
          {},
          el("h4", {}, "Its answer to the sample, as the sliders stand"),
          answerBars(found.answer, facts.class_names, { most: 3, ink: "local" }),
        )
      : null,
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
        el(
          "figcaption",
          {},
          el("b", {}, own.client),
          own.group ? ` ${own.group}` : "",
          own.read
            ? el("div", {}, found.isDrawn ? `reads ${own.read.answer}` : `says ${own.read.answer}`)
            : "",
        ),
      ),
    ),
  );
}

function waySection({ facts, state, server, client, question }) {
  const first = facts.clients.find((own) => own.name !== client.name) ?? client;
  const other = facts.clients.find((own) => own.name === state.other) ?? first;
  const box = el("div", {});
  const load = async (name) => {
    const found = await server.ask("between", {
      client: client.name,
      sample: question.sample,
      of: question.of,
      upload: question.upload,
      seed: question.seed,
      label: question.label,
      other: name,
    });
    box.replaceChildren(
      ...found.rows.map((row) =>
        el(
          "div",
          { class: "way" },
          el("span", { class: "small" }, `drawn by ${row.client}`),
          el(
            "div",
            { class: "strip tight" },
            row.pictures.map((uri, step) =>
              picture(uri, `step ${step + 1} of ${row.pictures.length}`, "medium"),
            ),
          ),
        ),
      ),
    );
  };
  const words =
    facts.can.draw === "draws"
      ? "from this draw to the next one, drawn by it and by"
      : "from this sample to the first one of client";
  const pick = clientPicker(words, facts, other.name, (name) => {
    keep({ other: name });
    load(name);
  });
  return {
    section: el(
      "section",
      { class: "panel" },
      el("h3", {}, "The way from A to B"),
      el("div", { class: "controls" }, pick),
      box,
    ),
    load: () => load(other.name),
  };
}

// The desk: a picture, the sliders of both inks, and what clients make of where they stand.
class Desk {
  constructor({ facts, state, server, signal, question, axes }) {
    Object.assign(this, { facts, server, question, axes });
    this.isDrawn = Boolean(facts.can.draw);
    this.shot = el("img", { class: "shot huge", alt: "what the codes stand for" });
    this.said = el("div", { class: "said", "aria-live": "polite" });
    this.strip = el("div", {});
    this.data = { client: question.client };
    this.latest = newest(signal);
    this.latestStrip = newest(signal);
    const changed = () => this.update();
    const sliders = (part, more) => {
      const kept = numbers(state[part]);
      return axes[part].length ? inkSliders({ part, axes: axes[part], kept, changed, ...more }) : null;
    };
    this.inks = {
      // Without a decoder the shared code cannot be seen to move.
      shared: this.isDrawn
        ? sliders("shared", { title: "Shared", words: "the same meaning for every client" })
        : null,
      local:
        this.isDrawn || facts.can.exchange
          ? sliders("local", facts.can.concepts ? CONCEPTS : { title: "Local", words: LOCAL })
          : null,
      classes: sliders("classes", CLASSES),
    };
  }

  // Where the sliders stand, as the address has it.
  places() {
    return Object.fromEntries(Object.entries(this.inks).map(([part, own]) => [part, own?.text()]));
  }

  asked() {
    return { ...this.question, ...this.places() };
  }

  // Draws anew; what an earlier move asked for is given up.
  update() {
    keep(this.places());
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.updateStrip(), PAUSE);
    return this.latest(async (signal) => {
      const found = await this.server.ask("drawn", this.asked(), signal);
      this.data.drawn = found;
      if (found.picture) this.shot.src = found.picture;
      this.said.replaceChildren(...read(found, this.facts).filter(Boolean));
    }).catch((error) => this.complain(this.said, error));
  }

  updateStrip() {
    return this.latestStrip(async (signal) => {
      this.data.everybody = await this.server.ask("everybody", this.asked(), signal);
      this.strip.replaceChildren(everybodyStrip({ ...this.data.everybody, isDrawn: this.isDrawn }));
    }).catch((error) => this.complain(this.strip, error));
  }

  complain(place, error) {
    if (error.name !== "AbortError") place.replaceChildren(note(error.message));
  }

  buttons() {
    const button = (words, act) => el("button", { type: "button", onclick: act }, words);
    const change = (words, act, parts) => {
      const moved = parts.map((part) => this.inks[part]).filter(Boolean);
      const all = () => {
        moved.forEach((own) => own[act]());
        this.update();
      };
      return moved.length ? button(words, all) : null;
    };
    return el(
      "p",
      { class: "turn" },
      change("Reset", "reset", ["shared", "local", "classes"]),
      change("Random shared", "random", ["shared"]),
      change("Random local", "random", ["local"]),
      this.facts.can.draw === "draws"
        ? button("Another draw", () => go({ seed: this.question.seed + 1 }))
        : null,
    );
  }

  // Without a decoder there is nothing shared to move: the answer stands in its place.
  middle() {
    if (this.inks.shared) return [this.inks.shared.box, el("div", {}, this.localBoxes()), this.said];
    const why = `${this.facts.method} cannot draw from its codes, so the sample stays as it is. Move what is local, and see what becomes of the answer.`;
    return [
      el("div", { class: "ink shared" }, this.said, el("p", { class: "small" }, why)),
      el("div", {}, this.localBoxes()),
    ];
  }

  localBoxes() {
    const { local, classes } = this.inks;
    const boxes = [local, classes].filter(Boolean).map((own) => own.box);
    if (boxes.length) return boxes;
    const why = `${this.facts.method} has no local code in this run.`;
    return el("div", { class: "ink local" }, el("h3", {}, "Local"), el("p", { class: "small" }, why));
  }

  element(original) {
    const drawn = el(
      "figure",
      {},
      this.shot,
      el("figcaption", {}, `drawn by client ${this.question.client}`),
    );
    const sample = () =>
      el(
        "figure",
        { class: "original" },
        picture(original.picture, "the sample", this.isDrawn ? "medium" : "huge"),
        el("figcaption", {}, `the sample (${original.label ?? "own image"})`),
      );
    return el(
      "div",
      { class: "desk" },
      el(
        "div",
        { class: "drawn" },
        this.isDrawn ? drawn : null,
        original?.picture ? sample() : null,
        this.buttons(),
      ),
      this.middle(),
    );
  }

  everybody() {
    const code = this.inks.local ? "answers" : "shares";
    const titles = { answers: "The same local code, every client", shares: "The same sample, every client" };
    const title = this.isDrawn ? "The same content, every client" : titles[code];
    const own = this.inks.local && this.inks.classes ? " Each expects its own shares of the classes." : "";
    const words = EVERYBODY[this.facts.can.draw ?? code] + own;
    return el(
      "section",
      { class: "panel" },
      el("h3", {}, title),
      el("p", { class: "small" }, words),
      this.strip,
    );
  }

  rows() {
    const asked = this.asked();
    return Object.keys(this.inks).flatMap((part) =>
      (numbers(asked[part]) ?? []).map((place, k) => ({ part, slider: this.axes[part][k]?.name, place })),
    );
  }
}

function controls(facts, client, question) {
  const classes = facts.class_names.map((name, number) => [String(number), name]);
  return el(
    "div",
    { class: "controls" },
    clientPicker("Client", facts, client.name, (name) => go({ client: name, sample: 0, of: "" })),
    facts.can.labels
      ? dropdown("draws the class", classes, String(question.label), (label) => go({ label }))
      : null,
  );
}

// Why there is nothing to move; null if there is.
function whyNothing(facts, noSamples) {
  if (!facts.can.draw && !facts.can.exchange && !facts.can.shares) {
    return `${facts.method} has no decoder and no local code that could be exchanged, so there is nothing to move here.`;
  }
  return noSamples && !facts.can.maps && facts.can.draw !== "draws" ? noSamples : null;
}

export async function show({ place, facts, state, server, signal, seen }) {
  const client = chosenClient(facts, state);
  const isRandom = facts.can.draw === "draws";
  const sample = {
    client: client.name,
    sample: Number(state.sample ?? 0),
    of: state.of || undefined,
    upload: state.upload || undefined,
  };
  const question = {
    ...sample,
    seed: isRandom ? Number(state.seed ?? 0) : undefined,
    label: facts.can.labels ? Number(state.label ?? 0) : undefined,
  };
  place.append(controls(facts, client, question));
  const noSamples = await server.whyNoSamples();
  const nothing = whyNothing(facts, noSamples);
  if (nothing) {
    place.append(note(nothing));
    return;
  }
  if (noSamples && !isRandom) place.append(note(`${noSamples} The sliders start from a typical code.`));
  const axes = await server.ask("sliders", question);
  if (!facts.can.draw && !axes.local.length && !axes.classes.length) {
    place.append(note(`${facts.method} found no local code in this run, so there is nothing to move here.`));
    return;
  }
  const original = isRandom || (noSamples && !sample.upload) ? null : await server.ask("sample", sample);
  if (original) facts.counts = { ...facts.counts, [original.owner]: original.samples ?? Infinity };
  const desk = new Desk({ facts, state, server, signal, question, axes });
  place.append(desk.element(original), desk.everybody());
  seen.json = () => ({ ...desk.data, ...desk.asked() });
  seen.csv = () => desk.rows();
  if (desk.isDrawn) seen.png = () => drawnCanvas(desk.shot);
  await desk.update();
  if (desk.isDrawn && facts.clients.length > 1) {
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
