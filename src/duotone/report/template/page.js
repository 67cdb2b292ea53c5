"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // null: as the system wants it

  const isDark = () => (chosen ?? (prefersDark.matches ? "dark" : "light")) === "dark";

  function colours() {
    const style = getComputedStyle(root);
    const read = (name) => style.getPropertyValue(name).trim();
    return { text: read("--text"), grid: read("--grid"), paper: read("--paper"), rule: read("--rule") };
  }

  // Which changes of a figure's layout give it the colours of the page.
  function themed(layout) {
    const { text, grid, paper, rule } = colours();
    const changes = {
      "font.color": text,
      "hoverlabel.bgcolor": paper,
      "hoverlabel.bordercolor": rule,
      "hoverlabel.font.color": text,
      "modebar.color": grid,
      "modebar.activecolor": text,
      "modebar.bgcolor": "rgba(0,0,0,0)",
    };
    for (const axis of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      changes[`${axis}.gridcolor`] = grid;
      changes[`${axis}.linecolor`] = rule;
    }
    return changes;
  }

  const settings = {
    displaylogo: false,
    responsive: true,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" },
  };

  async function draw(plot) {
    const source = plot.querySelector("script");
    if (!window.Plotly || plot.hidden || !source) return;
    source.remove();
    const figure = JSON.parse(await unpack(source.textContent));
    for (const [path, value] of Object.entries(themed(figure.layout))) {
      const keys = path.split(".");
      const last = keys.pop();
      let table = figure.layout;
      for (const key of keys) table = table[key] ??= {};
      table[last] = value;
    }
    await Plotly.newPlot(plot, figure.data, figure.layout, settings);
    plot.dataset.drawn = "yes";
  }

  function paint() {
    button.setAttribute("aria-pressed", String(isDark()));
    button.textContent = isDark() ? "Light" : "Dark";
    for (const plot of document.querySelectorAll(".plot[data-drawn]")) {
      Plotly.relayout(plot, themed(plot.layout));
    }
  }

  function choose(theme) {
    chosen = theme;
    if (theme === null) delete root.dataset.theme;
    else root.dataset.theme = theme;
    paint();
  }

  for (const panel of document.querySelectorAll(".panel")) {
    const controls = panel.querySelector(".controls");
    controls?.addEventListener("change", () => {
      const wanted = [...controls.querySelectorAll("input:checked")].map((input) => input.value);
      for (const plot of panel.querySelectorAll(".plot")) {
        const choices = JSON.parse(plot.dataset.choices);
        plot.hidden = !wanted.every((word) => choices.includes(word));
        if (plot.dataset.drawn && !plot.hidden) Plotly.Plots.resize(plot);
        draw(plot);
      }
    });
  }

  button.hidden = false;
  button.addEventListener("click", () => choose(isDark() ? "light" : "dark"));
  prefersDark.addEventListener("change", paint);

  // Paper is white, whatever the screen is.
  let onScreen = null;
  addEventListener("beforeprint", () => { onScreen = chosen; choose("light"); });
  addEventListener("afterprint", () => choose(onScreen));

  // Plotly and figures are packed: gzip, written in the 85 signs of Python's b85encode ("/" stands for "<").
  async function unpack(source) {
    const signs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;/=>?@^_`{|}~";
    const value = new Uint8Array(128);
    [...signs].forEach((sign, place) => { value[sign.charCodeAt(0)] = place; });
    const full = Math.ceil(source.length / 5);
    const bytes = new Uint8Array(4 * full);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i < full; i++) {
      let number = 0;
      for (let k = 0; k < 5; k++) {
        const place = 5 * i + k;
        number = number * 85 + (place < source.length ? value[source.charCodeAt(place)] : 84);
      }
      view.setUint32(4 * i, number >>> 0);
    }
    const used = 4 * full - (5 * full - source.length);
    const stream = new Blob([bytes.subarray(0, used)]).stream();
    return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text();
  }

  async function start() {
    const library = document.getElementById("plotly"); // absent where there is no figure
    if (library) {
      const script = document.createElement("script");
      script.textContent = await unpack(library.textContent);
      document.body.append(script);
    }
    await Promise.all([...document.querySelectorAll(".plot")].map(draw));
    paint();
    root.dataset.ready = "yes";
  }

  paint();
  start().catch(() => {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "This browser is too old to draw the figures; all tables and numbers are here without them.";
    document.getElementById("verdict").append(note);
  });

  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const section of document.querySelectorAll("main > section")) seen.observe(section);
})();
