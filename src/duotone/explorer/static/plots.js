// Plotly's figures in the colours of the page. Its JavaScript is large, and fetched when needed.

import { el } from "./dom.js";
import { ink, onTheme } from "./theme.js";

let loading = null;

function plotly() {
  loading ??= new Promise((done, failed) => {
    document.head.append(
      el("script", {
        src: "plotly.js",
        onload: () => done(globalThis.Plotly),
        onerror: () => failed(new Error("Plotly could not be loaded")),
      }),
    );
  });
  return loading;
}

function themed(layout) {
  const changes = {
    "font.color": ink("text"),
    "hoverlabel.bgcolor": ink("paper"),
    "hoverlabel.bordercolor": ink("rule"),
    "hoverlabel.font.color": ink("text"),
  };
  for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    changes[`${axis}.gridcolor`] = ink("grid");
    changes[`${axis}.linecolor`] = ink("rule");
  }
  return changes;
}

export async function plot(place, figure, signal) {
  const tool = await plotly();
  if (signal.aborted) return;
  await tool.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: true });
  await tool.relayout(place, themed(figure.layout));
  if (place.dataset.drawn) return;
  place.dataset.drawn = "yes";
  onTheme(() => tool.relayout(place, themed(place.layout)), signal);
  signal.addEventListener("abort", () => tool.purge(place), { once: true });
}

// The figure as a canvas, for a download.
export async function plotCanvas(place) {
  const tool = await plotly();
  const image = new Image();
  image.src = await tool.toImage(place, { format: "png", scale: 2 });
  await image.decode();
  const made = el("canvas", { width: image.width, height: image.height });
  made.getContext("2d").drawImage(image, 0, 0);
  return made;
}
