// Maps of both parts: coloured by what is known of the samples; a region becomes a grid of them.

import { choice, dropdown, el, note } from "../dom.js";
import { tile } from "../parts.js";
import { legendMark, markOf, Scatter } from "../scatter.js";
import { address, keep } from "../state.js";

const MOST_TILES = 60;
const MOST_NAMED = 24;
const LATER = "correctness";

// Cividis in five steps: even for every colour vision.
const SCALE = ["#00224e", "#434e6c", "#7d7c78", "#bcaf6f", "#fee838"];

function scaled(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return values.map((value) => (value === null ? "#8a8f94" : SCALE[Math.min(4, Math.floor((5 * (value - low)) / (high - low || 1)))]));
}

function marksBy(colour, series) {
  if (colour.names === null) {
    const inks = scaled(colour.values);
    return (row) => ({ colour: inks[row], symbol: "circle", isOpen: false });
  }
  const marks = colour.names.map((_, place) => ({ ...markOf(place, series), isOpen: false }));
  return (row) => marks[colour.values[row]];
}

function legend(colour, series) {
  if (colour.names === null) {
    const known = colour.values.filter((value) => value !== null);
    return el("p", { class: "legend" }, `${colour.name} from ${Math.min(...known)} `, SCALE.map((ink) => el("span", { class: "swatch", style: { background: ink } })), ` to ${Math.max(...known)}`);
  }
  if (colour.names.length > MOST_NAMED) return el("p", { class: "legend small" }, `${colour.names.length} different ones; point at a dot to see which.`);
  return el("p", { class: "legend" }, colour.names.map((name, place) => el("span", {}, legendMark(markOf(place, series)), ` ${name}`)));
}

export async function show({ place, facts, state, server, signal, seen, series }) {
  if (!facts.can.maps) {
    place.append(note("This run keeps no codes, so there are no maps; run it again with --set latents=200."));
    return;
  }
  const { colours, missing } = await server.ask("map-colours");
  const byName = new Map(colours.map((colour) => [colour.name, colour]));
  const choices = colours.map((colour) => [colour.name, colour.name]);
  if (facts.task === "classes") choices.push([LATER, LATER]);
  let colour = byName.get(state.colour) ?? byName.get("client") ?? colours[0];
  let projection = state.projection === "tsne" ? "tsne" : "pca";
  const parts = {};
  const key = el("div", {});
  const grid = el("div", { class: "selection", "aria-live": "polite" });
  const busy = el("p", { class: "small waiting", hidden: true });

  const wordsOf = (row) => ["client", "label", "group"].filter((name) => byName.has(name)).map((name) => {
    const own = byName.get(name);
    return `${name} ${own.names ? own.names[own.values[row]] : own.values[row]}`;
  }).join(" · ");

  const paint = () => {
    const mark = marksBy(colour, series);
    for (const own of Object.values(parts)) {
      if (!own.map) continue;
      own.scatter.show(own.map.rows.map((row, place) => ({ x: own.map.x[place], y: own.map.y[place], mark: mark(row) })));
      own.axes.textContent = own.map.axes;
    }
    key.replaceChildren(legend(colour, series));
  };

  const select = async (rows) => {
    for (const own of Object.values(parts)) {
      const chosen = new Set(rows);
      own.scatter.choose(own.map ? own.map.rows.flatMap((row, place) => (chosen.has(row) ? [place] : [])) : []);
    }
    if (!rows.length) return grid.replaceChildren();
    // Evenly over the region, so that a grid of few samples is no corner of it.
    const count = Math.min(MOST_TILES, rows.length);
    const some = Array.from({ length: count }, (_, place) => rows[Math.floor((place * rows.length) / count)]);
    const { tiles } = await server.ask("tiles", { rows: some.join(",") });
    grid.replaceChildren(
      el("h3", {}, rows.length > count ? `${count} of the ${rows.length} selected samples` : `${rows.length} selected`),
      el("div", { class: "tiles-grid" }, tiles.map((own) =>
        tile({
          uri: own.picture,
          caption: `${own.client}: ${own.label}`,
          href: own.split === "test" ? address({ view: "sample", run: state.run, client: own.client, sample: own.sample }) : address({ view: "client", run: state.run, client: own.client }),
          label: `${own.split} sample ${own.sample} of client ${own.client}, label ${own.label}`,
        }))),
    );
  };

  const thumbnails = async (own, places) => {
    if (!places.length || places.length > MOST_TILES || !facts.is_image || own.scatter.zoom < 1.5) {
      if (own.scatter.pictures.size) { own.scatter.pictures.clear(); own.scatter.draw(); }
      return;
    }
    const missing = places.filter((place) => !own.scatter.pictures.has(place));
    if (!missing.length) return;
    const { tiles } = await server.ask("tiles", { rows: missing.map((place) => own.map.rows[place]).join(",") });
    tiles.forEach(({ picture }, k) => {
      if (!picture) return;
      const image = new Image();
      image.onload = () => own.scatter.draw();
      image.src = picture;
      own.scatter.pictures.set(missing[k], image);
    });
  };

  const load = async () => {
    const wanted = projection;
    busy.hidden = projection !== "tsne";
    busy.textContent = "t-SNE is being computed; PCA stays until it is ready …";
    await Promise.all(Object.entries(parts).filter(([part]) => !missing[part]).map(async ([part, own]) => {
      own.map = await server.ask(projection, { part });
      own.scatter.reset();
      own.scatter.pictures.clear();
    }));
    busy.hidden = true;
    if (wanted === projection) paint();
  };

  for (const part of ["shared", "local"]) {
    const own = (parts[part] = { axes: el("p", { class: "small" }) });
    own.scatter = new Scatter(
      {
        label: `Map of the ${part} part. Arrow keys move, plus and minus zoom, 0 resets, Enter selects all that is seen.`,
        radius: 3.5,
        pictureSize: 34,
        words: (place) => wordsOf(own.map.rows[place]),
        onpick: (place) => select([own.map.rows[place]]),
        onselect: (places) => select(places.map((place) => own.map.rows[place])),
        onview: (places) => thumbnails(own, places).catch(() => {}),
      },
      signal,
    );
    own.figure = el("figure", {}, el("h3", { class: part }, `${part} part`), ...(missing[part] ? [note(missing[part])] : [own.scatter.element, own.axes]));
  }
  const recolour = async (name) => {
    if (name === LATER && !byName.has(LATER)) {
      busy.hidden = false;
      busy.textContent = "Every kept sample is being answered …";
      try {
        byName.set(LATER, await server.ask("correctness"));
      } catch (error) {
        if (error.name !== "AbortError") grid.replaceChildren(note(error.message));
        return;
      } finally {
        busy.hidden = true;
      }
    }
    colour = byName.get(name);
    keep({ colour: name });
    paint();
  };
  place.append(
    el("p", { class: "intro" }, "Each dot is a sample. Coloured by client, a shared part should look mixed and a local part sorted; coloured by label, the other way round. A flat map drops most of the code; the probes in the report say more."),
    el(
      "div",
      { class: "controls" },
      choice("projection", [["pca", "PCA"], ["tsne", "t-SNE"]], projection, (value) => { projection = value; keep({ projection }); load(); }),
      dropdown("coloured by", choices, state.colour ?? colour.name, recolour),
      choice("drag to", [["move", "move"], ["select", "select"]], "move", (mode) => Object.values(parts).forEach((own) => { own.scatter.mode = mode; own.scatter.canvas.classList.toggle("selects", mode === "select"); })),
    ),
    busy,
    el("div", { class: "two-maps" }, parts.shared.figure, parts.local.figure),
    key,
    grid,
  );
  seen.png = () => sideBySide(Object.values(parts).filter((own) => own.map).map((own) => own.scatter.canvas));
  seen.json = () => Object.fromEntries(Object.entries(parts).map(([part, own]) => [part, own.map]));
  seen.csv = () => Object.entries(parts).flatMap(([part, own]) => (own.map?.rows ?? []).map((row, k) => ({
    part, row, x: own.map.x[k], y: own.map.y[k],
    ...Object.fromEntries([...byName.values()].map((one) => [one.name, one.names ? one.names[one.values[row]] : one.values[row]])),
  })));
  const wanted = projection;
  projection = "pca"; // at once; the other when it is ready
  await load();
  if (wanted !== "pca") { projection = wanted; load(); }
  if (state.colour === LATER) await recolour(LATER);
}

function sideBySide(canvases) {
  const made = el("canvas", { width: canvases.reduce((sum, own) => sum + own.width, 0), height: Math.max(...canvases.map((own) => own.height)) });
  const pen = made.getContext("2d");
  let left = 0;
  for (const own of canvases) {
    pen.drawImage(own, left, 0);
    left += own.width;
  }
  return made;
}
