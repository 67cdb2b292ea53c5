// What is seen, to take along: the data as JSON or CSV, the picture as PNG, the view as one page.

import { el } from "./dom.js";
import { plotCanvas } from "./plots.js";

function offer(name, content, type) {
  const address =
    content instanceof Blob
      ? URL.createObjectURL(content)
      : URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function asCsv(rows) {
  if (!rows.length) return "";
  const heads = Object.keys(rows[0]);
  // A cell that begins like a formula must stay text in a spreadsheet.
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return (
    [heads, ...rows.map((row) => heads.map((head) => row[head]))]
      .map((row) => row.map(cell).join(","))
      .join("\n") + "\n"
  );
}

// seen: {json: () => data, csv: () => rows, png: () => canvas}, each if the view has it.
export function offerDownloads(place, name, seen) {
  const button = (words, act) => el("button", { type: "button", onclick: act }, words);
  const canvas = seen.png;
  place.replaceChildren(
    button("Save this view", async () => offer(`${name}.html`, await offlinePage(name), "text/html")),
    ...(canvas
      ? [
          button("PNG", async () => {
            const found = await canvas();
            if (found) found.toBlob((blob) => offer(`${name}.png`, blob));
          }),
        ]
      : []),
    ...(seen.csv ? [button("CSV", () => offer(`${name}.csv`, asCsv(seen.csv()), "text/csv"))] : []),
    ...(seen.json
      ? [
          button("JSON", () =>
            offer(`${name}.json`, JSON.stringify(seen.json(), null, 2), "application/json"),
          ),
        ]
      : []),
  );
}

// The page as it stands, in one file that needs nothing else and runs nothing.
async function offlinePage(name) {
  const styles = await Promise.all(
    [...document.querySelectorAll("link[rel=stylesheet]")].map(async (link) =>
      (await fetch(link.href)).text(),
    ),
  );
  const copy = document.body.cloneNode(true);
  const pair = (selector) => {
    const copies = copy.querySelectorAll(selector);
    return [...document.body.querySelectorAll(selector)].map((own, place) => [own, copies[place]]);
  };
  const still = (canvas, own) =>
    el("img", {
      src: canvas.toDataURL(),
      alt: own.getAttribute("aria-label") ?? "",
      class: own.className,
      width: own.clientWidth,
    });
  for (const [own, copied] of pair("canvas")) copied.replaceWith(still(own, own));
  for (const [own, copied] of pair(".plot[data-drawn]"))
    copied.replaceWith(still(await plotCanvas(own), own));
  for (const [own, copied] of pair("input")) {
    copied.setAttribute("value", own.value);
    copied.toggleAttribute("checked", own.checked);
    copied.setAttribute("disabled", "");
  }
  for (const [own, copied] of pair("select"))
    copied.replaceWith(el("b", {}, own.selectedOptions[0]?.textContent ?? ""));
  copy
    .querySelectorAll("nav ol, .tools, .downloads, .skip, .needs-server, noscript")
    .forEach((part) => part.remove());
  copy.querySelectorAll("button").forEach((button) => button.setAttribute("disabled", ""));
  copy.querySelectorAll("a").forEach((link) => link.removeAttribute("href"));
  copy
    .querySelector(".foot")
    .append(el("p", { class: "small" }, `Saved ${new Date().toLocaleString()} from ${location.hash}.`));
  const page = document.implementation.createHTMLDocument(`${name} · duotone`);
  page.documentElement.lang = "en";
  if (document.documentElement.dataset.theme)
    page.documentElement.dataset.theme = document.documentElement.dataset.theme;
  const meta = (attributes) => page.head.append(el("meta", attributes));
  meta({ charset: "utf-8" });
  meta({
    "http-equiv": "Content-Security-Policy",
    content: "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
  });
  meta({ name: "viewport", content: "width=device-width, initial-scale=1" });
  page.head.append(el("style", {}, styles.join("\n")));
  page.body.replaceWith(copy);
  return `<!DOCTYPE html>\n${page.documentElement.outerHTML}`;
}
