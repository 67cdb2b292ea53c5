// One sample: what this client says, what everybody says, and why; or an own image.

import { newest } from "../api.js";
import { el, length, note, percent, table } from "../dom.js";
import { dropZone } from "../drop.js";
import { answerBars, chosenClient, clientPicker, picture } from "../parts.js";
import { policySlider } from "../policy.js";
import { address, go, keep } from "../state.js";
import { cardOf } from "../why.js";

function strip(found, state) {
  const said = new Map();
  for (const one of found.strip) {
    if (!said.has(one.answer)) said.set(one.answer, []);
    said.get(one.answer).push(one);
  }
  const isNumber = found.here.value !== undefined;
  const groups = isNumber ? [[null, found.strip]] : [...said].sort((a, b) => b[1].length - a[1].length);
  return el(
    "div",
    { class: "who" },
    groups.map(([answer, clients]) =>
      el(
        "div",
        { class: "who-group" },
        answer === null
          ? null
          : el(
              "h4",
              {},
              answer ?? "no answer",
              el("span", { class: "small" }, ` said by ${clients.length} of ${found.strip.length}`),
            ),
        el(
          "ul",
          {},
          clients.map((one) =>
            el(
              "li",
              {},
              el(
                "a",
                {
                  class: `chip ${one.client === found.client ? "here" : ""}`,
                  href: address({ ...state, client: one.client, of: state.upload ? undefined : found.owner }),
                  title: one.group ? `group ${one.group}` : null,
                },
                el("b", {}, one.client),
                isNumber
                  ? ` ${one.answer}`
                  : el("span", { class: "chip-fill", style: { width: length(one.probability ?? 0) } }),
                isNumber ? null : el("span", { class: "chip-value" }, percent(one.probability ?? 0)),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

function inputOf(found) {
  if (found.picture) return el("figure", { class: "input" }, picture(found.picture, "the sample", "huge"));
  return el(
    "div",
    { class: "input features" },
    table(
      ["feature", ">value"],
      found.features.map(([name, value]) => [name, typeof value === "number" ? value.toFixed(3) : value]),
    ),
  );
}

function steps(found, state, sample) {
  if (found.samples === null)
    return el(
      "p",
      {},
      el("b", {}, "Your own image"),
      " · ",
      el("a", { href: address({ ...state, upload: "" }) }, "back to the client's samples"),
    );
  const step = (words, to) =>
    el(
      "button",
      { type: "button", disabled: to < 0 || to >= found.samples, onclick: () => go({ sample: to }) },
      words,
    );
  return el(
    "p",
    { class: "turn" },
    step("←", sample - 1),
    ` test sample ${sample} (0 to ${found.samples - 1})${found.owner === found.client ? "" : ` of client ${found.owner}`} `,
    step("→", sample + 1),
  );
}

async function explain(box, question, server, found) {
  box.replaceChildren(el("p", { class: "small waiting" }, "The answer is being taken apart …"));
  try {
    const card = await server.ask("why", question);
    box.replaceChildren(cardOf(card, found.picture, found.features));
    return card.card;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    box.replaceChildren(note(error.message));
    return null;
  }
}

export async function show({ place, facts, state, server, signal, seen }) {
  const client = chosenClient(facts, state);
  const sample = Number(state.sample ?? 0);
  const question = {
    client: client.name,
    sample,
    of: state.of || undefined,
    upload: state.upload || undefined,
  };
  place.append(
    el(
      "div",
      { class: "controls" },
      clientPicker("What does client", facts, client.name, (name) =>
        go({ client: name, of: state.of || client.name }),
      ),
      clientPicker("say of a sample of", facts, state.of || client.name, (name) =>
        go({ of: name, sample: 0, upload: "" }),
      ),
    ),
  );
  if (facts.is_image) {
    const problem = el("div", { role: "alert" });
    dropZone(
      place,
      async (file) => {
        problem.replaceChildren();
        try {
          go({ upload: (await server.upload(file)).upload });
        } catch (error) {
          if (error.name !== "AbortError") problem.replaceChildren(note(error.message));
        }
      },
      signal,
    );
    place.append(problem);
  }
  const why = question.upload ? null : await server.whyNoSamples();
  if (why) {
    place.append(
      note(why),
      facts.is_image ? note("An own image can still be asked about: drop one above.") : "",
    );
    return;
  }
  const found = await server.ask("sample", question);
  facts.counts = { ...facts.counts, [found.owner]: found.samples ?? Infinity };
  const keepNames = found.label === null ? [] : [found.label];
  const canMove = facts.can.draw === "codes" || facts.can.exchange || facts.can.shares;
  const { run, of, upload } = state;
  const inks = address({ view: "inks", run, client: client.name, sample, of, upload });
  place.append(
    el(
      "div",
      { class: "sample-top" },
      el("div", {}, inputOf(found), steps(found, state, sample)),
      el(
        "div",
        {},
        el("h3", {}, `Client ${client.name} says ${found.here.answer}`),
        found.label === null ? null : el("p", { class: "small" }, `The true label is ${found.label}.`),
        answerBars(found.here, facts.class_names, { keep: keepNames }),
        canMove ? el("p", {}, el("a", { href: inks }, "Move its codes →")) : null,
      ),
      el("div", {}, el("h3", {}, "Who would say what"), strip(found, state)),
    ),
  );
  const box = el("div", { class: "why-box" });
  const heading = el(
    "div",
    { class: "head" },
    el("h3", {}, "Why"),
    clientPicker("against", facts, state.against, (name) => go({ against: name }), "nobody"),
  );
  place.append(heading, box);
  const newestPolicy = newest(signal);
  const policy = policySlider(
    (amount) => newestPolicy((own) => server.ask("policy", { ...question, amount }, own)),
    state,
    keep,
  );
  seen.json = () => data;
  seen.csv = () =>
    found.strip.map(({ probabilities, ...rest }) => ({
      ...rest,
      ...Object.fromEntries((probabilities ?? []).map((share, k) => [`says ${facts.class_names[k]}`, share])),
    }));
  const data = { sample: found, card: null };
  const against = state.against && state.against !== client.name ? state.against : undefined;
  data.card = await explain(box, { ...question, against }, server, found);
  place.append(policy);
}
