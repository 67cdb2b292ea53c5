// Training: curves, who was refused and why; a running run is followed as it goes on.

import { choice, el, note, table } from "../dom.js";
import { clientLink } from "../parts.js";
import { plot, plotCanvas } from "../plots.js";
import { keep } from "../state.js";

function refused(found) {
  if (!found.refused.length)
    return el("p", { class: "small" }, "Nobody was refused, and nobody's updates lay far from the rest.");
  const rounds = (list) => (list.length ? list.join(", ") : "–");
  return table(
    ["client", "refused in rounds", "far from the rest in", ">mean length", "last reason"],
    found.refused.map((row) => [
      clientLink(row.client),
      rounds(row.refused),
      rounds(row.far),
      row.length === null ? "–" : row.length.toFixed(2),
      row.reason || "–",
    ]),
  );
}

export async function show({ place, state, server, signal, seen }) {
  const status = el("p", { class: "lead", "aria-live": "polite" });
  const bar = el("progress", { max: 1, value: 0, "aria-label": "rounds done" });
  const chart = el("div", {
    class: "plot",
    role: "img",
    "aria-label": "Learning curves",
    style: { height: "360px" },
  });
  const controls = el("div", { class: "controls" });
  const list = el("div", {});
  let found = null;
  let metric = state.metric;

  const paint = async () => {
    const last = found.last.map((own) => `${own.role}s ${own.metric} ${own.value}`).join(", ");
    status.textContent = `${found.round} of ${found.rounds} rounds are committed; the run is ${found.status}.${last ? ` Last: ${last}.` : ""}`;
    bar.max = found.rounds;
    bar.value = found.round;
    list.replaceChildren(refused(found));
    const figure = found.figures.find((own) => own.metric === metric) ?? found.figures[0];
    if (!figure) return chart.replaceChildren(note("Nothing has been measured yet."));
    if (!chart.dataset.drawn) chart.replaceChildren();
    chart.setAttribute("aria-label", `Learning curve: ${figure.metric} of members and newcomers by round`);
    if (controls.children.length === 0 && found.figures.length > 1) {
      controls.append(
        choice(
          "metric",
          found.figures.map((own) => [own.metric, own.metric]),
          figure.metric,
          (value) => {
            metric = value;
            keep({ metric });
            paint();
          },
        ),
      );
    }
    await plot(chart, figure.figure, signal);
  };
  const load = async () => {
    found = await server.ask("training");
    await paint();
  };
  place.append(status, bar, controls, chart, el("h3", {}, "Refused, or far from the rest"), list);
  seen.json = () => found;
  seen.csv = () =>
    found.figures.flatMap((own) => {
      const [heads, ...rows] = own.csv
        .trim()
        .split("\n")
        .map((line) => line.split(","));
      return rows.map((row) => ({
        metric: own.metric,
        ...Object.fromEntries(heads.map((head, k) => [head, row[k]])),
      }));
    });
  seen.png = () => (chart.dataset.drawn ? plotCanvas(chart) : null);
  await load();
  if (found.status !== "running" && found.status !== "prepared") return;
  const events = server.follow();
  signal.addEventListener("abort", () => events.close(), { once: true });
  events.addEventListener("round", () => load().catch(() => {}));
  events.addEventListener("end", () => {
    events.close();
    load().catch(() => {});
  });
  events.addEventListener("gone", (event) => {
    events.close();
    place.append(note(JSON.parse(event.data).error));
  });
}
