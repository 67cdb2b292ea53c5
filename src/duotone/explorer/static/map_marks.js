// How dots are marked by what is known of their samples, and the legend that says so.

import { el } from "./dom.js";
import { legendMark, markOf } from "./marks.js";

const MOST_NAMED = 24;

// Cividis in five steps: even for every colour vision.
const SCALE = ["#00224e", "#434e6c", "#7d7c78", "#bcaf6f", "#fee838"];

const UNKNOWN = { colour: "#8a8f94", symbol: "circle", isOpen: false };

// Marks are shared by all samples of one value: a map makes a picture of each once.
export function marksBy(colour, series) {
  if (colour.names !== null) {
    const marks = colour.names.map((_, place) => ({ ...markOf(place, series), isOpen: false }));
    return (row) => marks[colour.values[row]];
  }
  const marks = SCALE.map((ink) => ({ colour: ink, symbol: "circle", isOpen: false }));
  const known = colour.values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return (row) => {
    const value = colour.values[row];
    if (value === null) return UNKNOWN;
    return marks[Math.min(4, Math.floor((5 * (value - low)) / (high - low || 1)))];
  };
}

export function legend(colour, series) {
  if (colour.names === null) {
    const known = colour.values.filter((value) => value !== null);
    return el(
      "p",
      { class: "legend" },
      `${colour.name} from ${Math.min(...known)} `,
      SCALE.map((ink) => el("span", { class: "swatch", style: { background: ink } })),
      ` to ${Math.max(...known)}`,
    );
  }
  if (colour.names.length > MOST_NAMED)
    return el(
      "p",
      { class: "legend small" },
      `${colour.names.length} different ones; point at a dot to see which.`,
    );
  return el(
    "p",
    { class: "legend" },
    colour.names.map((name, place) => el("span", {}, legendMark(markOf(place, series)), ` ${name}`)),
  );
}

// What a colour says of a sample.
export const valueOf = (colour, row) =>
  colour.names ? colour.names[colour.values[row]] : colour.values[row];
