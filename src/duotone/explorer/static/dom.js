// Builds elements. Text is only ever set as text: no name or label can become markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else if (value === true) made.setAttribute(name, "");
    else made.setAttribute(name, value);
  }
  made.append(
    ...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return made;
}

export const note = (text) => el("p", { class: "note" }, text);

// Says something to those who do not see the page.
export function tell(text) {
  document.getElementById("told").textContent = text;
}

export function choice(legend, options, chosen, changed) {
  const name = `choice-${crypto.randomUUID()}`;
  return el(
    "fieldset",
    {},
    el("legend", {}, legend),
    options.map(([value, words]) =>
      el(
        "label",
        {},
        el("input", {
          type: "radio",
          name,
          value,
          checked: value === chosen,
          onchange: () => changed(value),
        }),
        el("span", {}, words),
      ),
    ),
  );
}

export function dropdown(words, options, chosen, changed) {
  const box = el(
    "select",
    { onchange: () => changed(box.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
  return el("label", { class: "pick" }, el("span", {}, words), box);
}

export function table(heads, rows) {
  const cell = (tag, content, head, scope) =>
    el(tag, { class: head.startsWith(">") ? "right" : null, scope }, content);
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head) => cell("th", head.replace(">", ""), head, "col")),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            {},
            row.map((content, place) =>
              cell(place ? "td" : "th", content, heads[place], place ? null : "row"),
            ),
          ),
        ),
      ),
    ),
  );
}

// A share as a length in a style.
export const length = (share) => `${100 * Math.min(1, Math.max(0, share))}%`;
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`; // in one piece
export const signed = (value, digits = 2) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
