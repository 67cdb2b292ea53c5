// Marks of many things: a colour and a symbol, so that no difference is shown by colour alone.

import { el } from "./dom.js";

const SYMBOLS = ["circle", "square", "diamond", "triangle", "cross"];

function outline(pen, symbol, radius) {
  pen.beginPath();
  if (symbol === "circle") pen.arc(0, 0, radius, 0, 2 * Math.PI);
  else if (symbol === "square") pen.rect(-radius * 0.85, -radius * 0.85, radius * 1.7, radius * 1.7);
  else if (symbol === "diamond")
    (pen.moveTo(0, -radius * 1.2),
      pen.lineTo(radius * 1.2, 0),
      pen.lineTo(0, radius * 1.2),
      pen.lineTo(-radius * 1.2, 0));
  else if (symbol === "triangle")
    (pen.moveTo(0, -radius * 1.15),
      pen.lineTo(radius * 1.1, radius * 0.85),
      pen.lineTo(-radius * 1.1, radius * 0.85));
  else {
    const arm = radius * 0.38;
    pen.rect(-arm, -radius, 2 * arm, 2 * radius);
    pen.rect(-radius, -arm, 2 * radius, 2 * arm);
  }
  pen.closePath();
}

// A mark as a small picture, which is drawn as often as it is needed.
export function stamp(colour, symbol, isOpen, radius, ratio) {
  const size = Math.ceil((2 * radius + 5) * ratio);
  const made = el("canvas", { width: size, height: size });
  const pen = made.getContext("2d");
  pen.translate(size / 2, size / 2);
  pen.scale(ratio, ratio);
  outline(pen, symbol, radius);
  pen.fillStyle = pen.strokeStyle = colour;
  pen.lineWidth = 1.6;
  if (isOpen) pen.stroke();
  else pen.fill();
  return made;
}

export const markOf = (place, series) => ({
  colour: series[place % series.length],
  symbol: SYMBOLS[place % SYMBOLS.length],
});

// A small mark for a legend, the same as on the map.
export function legendMark(mark) {
  const ratio = devicePixelRatio || 1;
  const made = stamp(mark.colour, mark.symbol, mark.isOpen, 5, ratio);
  made.className = "mark";
  made.style.width = `${made.width / ratio}px`;
  made.setAttribute("aria-hidden", "true");
  return made;
}
