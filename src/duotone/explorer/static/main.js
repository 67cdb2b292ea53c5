// The page: reads what is asked for from the address, shows that view, and leaves it again.

import { asker, runs, Told } from "./api.js";
import { el, note, tell } from "./dom.js";
import { offerDownloads } from "./downloads.js";
import { address, go, read } from "./state.js";
import { start as startTheme } from "./theme.js";

const VIEWS = [
  ["federation", "Federation"],
  ["client", "Client"],
  ["sample", "Sample"],
  ["inks", "Two inks"],
  ["maps", "Maps"],
  ["training", "Training"],
];
const main = document.getElementById("main");
const known = new Map(); // what is known of each run
let left = new AbortController();
let shared = { runs: [], series: [], parts: {} };

async function about(run, server) {
  const found = known.get(run);
  if (found && found.status === "finished") return found;
  known.set(run, await server.ask("about"));
  return known.get(run);
}

function head(facts, state) {
  const style = facts.style === "none" ? "" : `, ${facts.style}`;
  document.getElementById("title").textContent = `${facts.method} on ${facts.data.split("/").pop()}${style}`;
  const members = `${facts.members} member${facts.members === 1 ? "" : "s"}`;
  const newcomers = `${facts.newcomers} newcomer${facts.newcomers === 1 ? "" : "s"}`;
  document.getElementById("subtitle").textContent =
    `${members}, ${newcomers} · ${facts.rounds} round${facts.rounds === 1 ? "" : "s"} · seed ${facts.seed} · ${facts.status}`;
  document.getElementById("views").replaceChildren(
    ...VIEWS.map(([view, words]) => {
      const { run, client, sample, of, upload } = state;
      const link = address({ view, run, client, sample, of, upload });
      return el(
        "li",
        {},
        el("a", { href: link, "aria-current": view === state.view ? "page" : null }, words),
      );
    }),
  );
}

async function show() {
  left.abort();
  left = new AbortController();
  const { signal } = left;
  const state = read();
  const server = asker(state.run, signal);
  main.setAttribute("aria-busy", "true");
  const view = el("section", { class: `view view-${state.view}` });
  try {
    const facts = await about(state.run, server);
    if (signal.aborted) return;
    head(facts, state);
    const title = VIEWS.find(([name]) => name === state.view)[1];
    document.title = `${title} · ${facts.name} · duotone`;
    view.append(el("h2", {}, title), ...facts.missing.map(note));
    main.replaceChildren(view);
    const seen = {};
    const place = document.getElementById("downloads");
    offerDownloads(place, `${facts.name}-${state.view}`, seen);
    if (facts.clients.length || state.view === "training") {
      const module = await import(`./views/${state.view}.js`);
      await module.show({ place: view, facts, state, server, signal, seen, ...shared });
    }
    if (signal.aborted) return;
    offerDownloads(place, `${facts.name}-${state.view}`, seen);
    tell(`${title} is shown.`);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    if (!view.isConnected) main.replaceChildren(view);
    view.append(note(error instanceof Told ? error.message : `The page itself failed: ${error.message}`));
    if (!(error instanceof Told)) console.error(error);
  } finally {
    if (!signal.aborted) main.setAttribute("aria-busy", "false");
  }
}

function keys(event) {
  if (
    event.ctrlKey ||
    event.altKey ||
    event.metaKey ||
    event.target.closest("input, select, textarea, canvas")
  )
    return;
  const state = read();
  const facts = known.get(state.run);
  if (!facts) return;
  const view = VIEWS[Number(event.key) - 1];
  if (view) return go({ view: view[0] });
  if (!["client", "sample", "inks"].includes(state.view)) return;
  const sample = Number(state.sample ?? 0);
  const names = facts.clients.map((client) => client.name);
  const place = Math.max(0, names.indexOf(state.client ?? names[0]));
  const step = { "[": -1, "]": 1 }[event.key];
  if (step !== undefined && names[place + step] !== undefined) {
    return go({ client: names[place + step], sample: 0, of: "", upload: "" });
  }
  const next = sample + ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0);
  const count = facts.counts?.[state.of || names[place]] ?? Infinity;
  if (state.view !== "client" && next !== sample && next >= 0 && next < count)
    go({ sample: next, upload: "" });
}

async function start() {
  startTheme(document.getElementById("theme"));
  try {
    shared = await runs();
  } catch (error) {
    main.replaceChildren(note(error.message));
    return;
  }
  const box = document.getElementById("run");
  box.replaceChildren(
    ...shared.runs.map((name, number) =>
      el("option", { value: number, selected: String(number) === read().run }, name),
    ),
  );
  document.getElementById("run-choice").hidden = shared.runs.length < 2;
  box.addEventListener("change", () => {
    location.hash = address({ view: read().view, run: box.value });
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address says what is looked at
    main.focus();
  });
  addEventListener("hashchange", show);
  addEventListener("keydown", keys);
  show();
}

start();
