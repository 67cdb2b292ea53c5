// Maps of both parts: coloured by what is known of the samples; a region becomes a grid of them.

import { choice, dropdown, el, note } from "../dom.js";
import { legend, marksBy, valueOf } from "../map_marks.js";
import { tile } from "../parts.js";
import { Scatter } from "../scatter.js";
import { address, keep } from "../state.js";

const MOST_TILES = 60;
const NEAR = 1.5; // a map that is not zoomed in keeps its dots
const LATER = "correctness"; // every kept sample must be answered for it
const INTRO =
  "Each dot is a sample. Coloured by client, a shared part should look mixed and a local part sorted; " +
  "coloured by label, the other way round. A flat map drops most of the code; the probes in the report say more.";
const KEYS = "Arrow keys move, plus and minus zoom, 0 resets, Enter selects all that is seen.";

class CodeMaps {
  constructor({ facts, state, server, signal, series }, { colours, missing }) {
    Object.assign(this, { facts, state, server, series, missing });
    this.colours = new Map(colours.map((colour) => [colour.name, colour]));
    this.colour = this.colours.get(state.colour) ?? this.colours.get("client") ?? colours[0];
    this.projection = "pca"; // at once; t-SNE when it is ready
    this.legend = el("div", {});
    this.grid = el("div", { class: "selection", "aria-live": "polite" });
    this.busy = el("p", { class: "small waiting", hidden: true });
    this.parts = ["shared", "local"].map((part) => this.newPart(part, signal));
  }

  newPart(name, signal) {
    const own = { name, map: null, axes: el("p", { class: "small" }) };
    own.scatter = new Scatter(
      {
        label: `Map of the ${name} part. ${KEYS}`,
        radius: 3.5,
        pictureSize: 34,
        words: (place) => this.words(own.map.rows[place]),
        onpick: (place) => this.select([own.map.rows[place]]),
        onselect: (places) => this.select(places.map((place) => own.map.rows[place])),
        onview: (places) => this.showPictures(own, places),
      },
      signal,
    );
    own.figure = el("figure", {}, el("h3", { class: name }, `${name} part`), own.scatter.element, own.axes);
    return own;
  }

  get mapped() {
    return this.parts.filter((own) => own.map);
  }

  words(row) {
    const names = ["client", "label", "group"].filter((name) => this.colours.has(name));
    return names.map((name) => `${name} ${valueOf(this.colours.get(name), row)}`).join(" · ");
  }

  // What was asked for may be left by the time it comes; then there is nobody to tell.
  async attempt(words, question) {
    this.busy.hidden = !words;
    this.busy.textContent = words;
    try {
      await question();
    } catch (error) {
      if (error.name !== "AbortError") this.grid.replaceChildren(note(error.message));
    } finally {
      this.busy.hidden = true;
    }
  }

  load(projection) {
    this.projection = projection;
    const words = projection === "tsne" ? "t-SNE is being computed; PCA stays until it is ready …" : "";
    return this.attempt(words, async () => {
      const there = this.parts.filter((own) => !this.missing[own.name]);
      const maps = await Promise.all(there.map((own) => this.server.ask(projection, { part: own.name })));
      if (projection !== this.projection) return; // the reader chose the other one meanwhile
      there.forEach((own, place) => {
        own.map = maps[place];
        own.scatter.reset();
        own.scatter.pictures.clear();
      });
      this.paint();
    });
  }

  recolour(name) {
    const words = name === LATER ? "Every kept sample is being answered …" : "";
    return this.attempt(words, async () => {
      if (!this.colours.has(name)) this.colours.set(name, await this.server.ask(name));
      this.colour = this.colours.get(name);
      keep({ colour: name });
      this.paint();
    });
  }

  paint() {
    const mark = marksBy(this.colour, this.series);
    for (const { map, scatter, axes } of this.mapped) {
      scatter.show(map.rows.map((row, place) => ({ x: map.x[place], y: map.y[place], mark: mark(row) })));
      axes.textContent = map.axes;
    }
    this.legend.replaceChildren(legend(this.colour, this.series));
  }

  select(rows) {
    const chosen = new Set(rows);
    for (const { map, scatter } of this.mapped) {
      scatter.choose(map.rows.flatMap((row, place) => (chosen.has(row) ? [place] : [])));
    }
    if (!rows.length) return this.grid.replaceChildren();
    // Evenly over the region, so that a grid of few samples is no corner of it.
    const count = Math.min(MOST_TILES, rows.length);
    const some = Array.from({ length: count }, (_, place) => rows[Math.floor((place * rows.length) / count)]);
    const title =
      rows.length > count ? `${count} of the ${rows.length} selected samples` : `${count} selected`;
    return this.attempt("", async () => {
      const { tiles } = await this.server.ask("tiles", { rows: some.join(",") });
      const grid = el(
        "div",
        { class: "tiles-grid" },
        tiles.map((own) => this.tile(own)),
      );
      this.grid.replaceChildren(el("h3", {}, title), grid);
    });
  }

  tile({ picture, client, label, split, sample }) {
    const place = split === "test" ? { view: "sample", client, sample } : { view: "client", client };
    return tile({
      uri: picture,
      caption: `${client}: ${label}`,
      href: address({ ...place, run: this.state.run }),
      label: `${split} sample ${sample} of client ${client}, label ${label}`,
    });
  }

  // Pictures instead of dots, where few enough of them are seen.
  async showPictures({ map, scatter }, places) {
    const few = places.length && places.length <= MOST_TILES && scatter.zoom >= NEAR && this.facts.is_image;
    const missing = few ? places.filter((place) => !scatter.pictures.has(place)) : [];
    if (!few && scatter.pictures.size) {
      scatter.pictures.clear();
      scatter.draw();
    }
    if (!missing.length) return;
    await this.attempt("", async () => {
      const rows = missing.map((place) => map.rows[place]).join(",");
      const { tiles } = await this.server.ask("tiles", { rows });
      tiles.forEach(({ picture }, k) => {
        if (!picture) return;
        const image = new Image();
        image.onload = () => scatter.draw();
        image.src = picture;
        scatter.pictures.set(missing[k], image);
      });
    });
  }

  controls() {
    const names = [...this.colours.keys()];
    if (this.facts.task === "classes" && !names.includes(LATER)) names.push(LATER);
    const project = (projection) => {
      keep({ projection });
      this.load(projection);
    };
    const drag = (mode) => {
      for (const { scatter } of this.parts) {
        scatter.mode = mode;
        scatter.canvas.classList.toggle("selects", mode === "select");
      }
    };
    const projections = [["pca", "PCA"], ["tsne", "t-SNE"]]; // prettier-ignore
    const drags = [["move", "move"], ["select", "select"]]; // prettier-ignore
    const colours = names.map((name) => [name, name]);
    return el(
      "div",
      { class: "controls" },
      choice("projection", projections, this.state.projection === "tsne" ? "tsne" : "pca", project),
      dropdown("coloured by", colours, this.state.colour ?? this.colour.name, (name) => this.recolour(name)),
      choice("drag to", drags, "move", drag),
    );
  }

  rows() {
    const known = [...this.colours.values()];
    return this.mapped.flatMap(({ name, map }) =>
      map.rows.map((row, place) => ({
        part: name,
        row,
        x: map.x[place],
        y: map.y[place],
        ...Object.fromEntries(known.map((colour) => [colour.name, valueOf(colour, row)])),
      })),
    );
  }
}

export async function show(view) {
  const { place, facts, state, server, seen } = view;
  if (!facts.can.maps) {
    place.append(note("This run keeps no codes, so there are no maps; run it again with --set latents=200."));
    return;
  }
  const maps = new CodeMaps(view, await server.ask("map-colours"));
  const there = maps.parts.filter((own) => !maps.missing[own.name]);
  const figures = el("div", { class: there.length > 1 ? "two-maps" : "one-map" });
  figures.append(...there.map((own) => own.figure));
  place.append(el("p", { class: "intro" }, INTRO), ...Object.values(maps.missing).filter(Boolean).map(note));
  if (!there.length) return;
  place.append(maps.controls(), maps.busy, figures, maps.legend, maps.grid);
  seen.png = () => sideBySide(maps.mapped.map((own) => own.scatter.canvas));
  seen.json = () => Object.fromEntries(maps.mapped.map((own) => [own.name, own.map]));
  seen.csv = () => maps.rows();
  await maps.load("pca");
  if (state.projection === "tsne") maps.load("tsne");
  if (state.colour === LATER) await maps.recolour(LATER);
}

function sideBySide(canvases) {
  const made = el("canvas", {
    width: canvases.reduce((sum, own) => sum + own.width, 0),
    height: Math.max(...canvases.map((own) => own.height)),
  });
  const pen = made.getContext("2d");
  let left = 0;
  for (const own of canvases) {
    pen.drawImage(own, left, 0);
    left += own.width;
  }
  return made;
}
