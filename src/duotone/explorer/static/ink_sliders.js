// The sliders of one ink: a part of the code, with where each of its dimensions stands.

import { el } from "./dom.js";

const INKS = {
  shared: ["Shared", "the same meaning for every client"],
  local: ["Local", "special to one client"],
};

// The sliders of one part; `changed` is called while one moves.
export function inkSliders(part, axes, kept, changed, names) {
  const places = kept?.length === axes.length ? kept : axes.map((axis) => axis.place);
  const rows = axes.map((axis, place) => {
    const name = names?.(place) ?? axis.name;
    const shown = el("output", {}, places[place].toFixed(2));
    const slider = el("input", {
      type: "range",
      min: axis.low,
      max: axis.high,
      step: (axis.high - axis.low) / 200,
      value: places[place],
      "aria-label": `${part} ${name}`,
    });
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
    random: () =>
      rows.forEach((own) => own.put(own.axis.low + Math.random() * (own.axis.high - own.axis.low))),
  };
}
