// An own image, dropped onto the page or chosen: it goes to the explorer on this machine, no further.

import { el } from "./dom.js";

export function dropZone(place, given, signal) {
  const input = el("input", {
    type: "file",
    accept: "image/png,image/jpeg",
    id: "own-image",
    onchange: () => input.files[0] && given(input.files[0]),
  });
  const zone = el(
    "label",
    { class: "drop needs-server", for: "own-image" },
    el("span", {}, "Drop an own image here, or choose one"),
    input,
  );
  const over = (event) => {
    event.preventDefault();
    zone.classList.add("over");
  };
  const on = (name, act) => document.addEventListener(name, act, { signal });
  on("dragover", over);
  on("dragleave", () => zone.classList.remove("over"));
  on("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) given(file);
  });
  place.append(zone);
}
