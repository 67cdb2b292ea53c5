// The sliders of one ink: a part of the code, or shares of the classes, and where each stands.

import { el } from "./dom.js";

const decimal = (value) => (Math.abs(value) < 0.005 ? "0.00" : value.toFixed(2).replace("-", "−"));
const decimals = (places) => places.map(decimal);

// Sliders of one part; `changed` is called while one moves. `shown` says all places in words.
export function inkSliders({ part, title, words, axes, kept, changed, name, shown = decimals }) {
  const places = kept?.length === axes.length ? kept : axes.map((axis) => axis.place);
  const rows = axes.map((axis, place) => {
    const called = name?.(axis, place) ?? axis.name;
    const slider = el("input", {
      type: "range",
      min: axis.low,
      max: axis.high,
      step: (axis.high - axis.low) / 200,
      value: places[place],
      "aria-label": `${part} ${called}`,
    });
    slider.value = places[place]; // the attributes of the range are known by now
    slider.addEventListener("input", () => {
      places[place] = Number(slider.value);
      tellPlaces();
      changed();
    });
    const put = (value) => {
      slider.value = places[place] = value;
      tellPlaces();
    };
    const output = el("output", {});
    const row = el("label", { class: "slider" }, el("span", {}, called), slider, output);
    return { put, axis, row, output };
  });
  // Shares sum to one, so moving one slider changes what all of them say.
  function tellPlaces() {
    shown(places).forEach((text, place) => {
      rows[place].output.textContent = text;
    });
  }
  tellPlaces();
  const box = el(
    "div",
    { class: `ink ${part}`, role: "group", "aria-label": title },
    el("h3", {}, title, el("span", { class: "small" }, ` ${words}`)),
    rows.map((own) => own.row),
  );
  return {
    box,
    text: () => places.map((value) => value.toFixed(4)).join(",") || undefined,
    reset: () => rows.forEach((own) => own.put(own.axis.place)),
    random: () =>
      rows.forEach((own) => own.put(own.axis.low + Math.random() * (own.axis.high - own.axis.low))),
  };
}
