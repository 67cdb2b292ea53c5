// A map of many dots on a canvas: pan, zoom, point at one, select a region; by keyboard, too.
// Dots are stamped from small pictures made once per colour and symbol, so ten thousand stay smooth.

import { el } from "./dom.js";
import { stamp } from "./marks.js";
import { ink, onTheme } from "./theme.js";

const MANY = 2000; // dots that are not drawn one by one while they are dragged

export class Scatter {
  // options: {label, height, radius, onpick(place), onselect(places), onview(places), words(place)}
  constructor(options, signal) {
    this.options = { height: 420, radius: 4, margin: 34, ...options };
    this.points = [];
    this.pictures = new Map();
    this.chosen = new Set();
    this.mode = "move";
    this.hovered = -1;
    this.canvas = el("canvas", {
      class: "map",
      tabindex: "0",
      role: "img",
      "aria-label": this.options.label,
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.element = el(
      "div",
      { class: "map-box", style: { height: `${this.options.height}px` } },
      this.canvas,
      this.tip,
    );
    this.reset();
    this._listen(signal);
    onTheme(() => this.draw(), signal);
    const sized = new ResizeObserver(() => this._resize());
    sized.observe(this.element);
    signal.addEventListener("abort", () => sized.disconnect(), { once: true });
  }

  // points: [{x, y, mark: {colour, symbol, isOpen}, picture?, name?}]
  show(points) {
    this.points = points;
    const xs = points.map((point) => point.x);
    const ys = points.map((point) => point.y);
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [low, high] = [Math.min(...ys), Math.max(...ys)];
    this.bounds = { left, low, width: right - left || 1, height: high - low || 1 };
    if (right === left) this.bounds.left -= 0.5;
    if (high === low) this.bounds.low -= 0.5;
    this.stamps = new Map();
    this.draw();
  }

  reset() {
    this.zoom = 1;
    this.shift = { x: 0, y: 0 };
  }

  choose(places) {
    this.chosen = new Set(places);
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this._paint();
    });
  }

  _resize() {
    const ratio = devicePixelRatio || 1;
    this.width = this.element.clientWidth;
    this.height = this.element.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    this.stamps = new Map();
    this.draw();
  }

  // Where points lie on the screen is a scale and a shift in each direction, found once per frame.
  _aim() {
    const { left, low, width, height } = this.bounds;
    const { margin } = this.options;
    const wide = ((this.width - 2 * margin) / width) * this.zoom;
    const high = ((this.height - 2 * margin) / height) * this.zoom;
    this.aim = {
      wide,
      high,
      x: (margin - this.width / 2) * this.zoom + this.width / 2 + this.shift.x - left * wide,
      y: (this.height / 2 - margin) * this.zoom + this.height / 2 + this.shift.y + low * high,
    };
  }

  _place(point) {
    return [this.aim.x + point.x * this.aim.wide, this.aim.y - point.y * this.aim.high];
  }

  _stamp(mark) {
    if (!this.stamps.has(mark)) {
      const { radius } = this.options;
      this.stamps.set(mark, stamp(mark.colour, mark.symbol, mark.isOpen, radius, this.ratio));
    }
    return this.stamps.get(mark);
  }

  _paint() {
    if (!this.width || !this.points.length) return;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this._aim();
    if (this.isDragged && this.points.length > MANY) return this._slide(pen);
    this.held = null;
    const seen = this._dots(pen, 0, 0);
    pen.globalAlpha = 1;
    this._names(pen, seen);
    this._box(pen);
    this.seen = seen;
    clearTimeout(this.told);
    this.told = setTimeout(() => this.options.onview?.(seen), 250);
  }

  // Draws all dots that fall onto a canvas, which may reach beyond the map; returns which.
  _dots(pen, beyondX, beyondY) {
    const seen = [];
    const anyChosen = this.chosen.size > 0;
    const usual = this.points.length > 300 ? 0.75 : 1;
    const { wide, high } = this.aim;
    for (let place = 0; place < this.points.length; place++) {
      const point = this.points[place];
      const x = this.aim.x + point.x * wide + beyondX;
      const y = this.aim.y - point.y * high + beyondY;
      const isOutside = x < -30 || y < -30 || x > this.width + 2 * beyondX + 30;
      if (isOutside || y > this.height + 2 * beyondY + 30) continue;
      seen.push(place);
      pen.globalAlpha = anyChosen && !this.chosen.has(place) ? 0.18 : usual;
      const picture = point.picture ?? this.pictures.get(place);
      if (picture?.complete && picture.naturalWidth) this._picture(pen, point, picture, x, y, place);
      else {
        const made = this._stamp(point.mark);
        const half = made.width / 2;
        pen.drawImage(made, Math.round(x * this.ratio - half), Math.round(y * this.ratio - half));
      }
    }
    return seen;
  }

  // While a map of many dots is dragged, a picture of it and its surroundings is moved as a whole.
  _slide(pen) {
    const [beyondX, beyondY] = [this.width / 2, this.height / 2];
    const apart = (name) => this.shift[name] - (this.held?.shift[name] ?? 0);
    if (!this.held || Math.abs(apart("x")) > beyondX || Math.abs(apart("y")) > beyondY) {
      const canvas = el("canvas", { width: 2 * this.canvas.width, height: 2 * this.canvas.height });
      this._dots(canvas.getContext("2d"), beyondX, beyondY);
      this.held = { canvas, shift: { ...this.shift } };
    }
    const left = (apart("x") - beyondX) * this.ratio;
    const top = (apart("y") - beyondY) * this.ratio;
    pen.drawImage(this.held.canvas, Math.round(left), Math.round(top));
  }

  _picture(pen, point, picture, x, y, place) {
    const size = this.options.pictureSize * (place === this.hovered ? 1.25 : 1) * this.ratio;
    const [left, top] = [x * this.ratio - size / 2, y * this.ratio - size / 2];
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture, left, top, size, size);
    pen.lineWidth = 2.5 * this.ratio;
    pen.strokeStyle = point.mark.colour;
    pen.setLineDash(point.mark.isOpen ? [4 * this.ratio, 3 * this.ratio] : []);
    pen.strokeRect(left, top, size, size);
    pen.setLineDash([]);
  }

  _names(pen, seen) {
    if (!this.options.names || seen.length > 80) return;
    pen.font = `${12 * this.ratio}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.fillStyle = ink("text");
    pen.strokeStyle = ink("paper");
    pen.lineWidth = 3 * this.ratio;
    for (const place of seen) {
      const point = this.points[place];
      const [x, y] = this._place(point);
      const half = point.picture ? this.options.pictureSize / 2 + 2 : this.options.radius;
      const below = (half + 14) * this.ratio;
      pen.strokeText(point.name, x * this.ratio, y * this.ratio + below);
      pen.fillText(point.name, x * this.ratio, y * this.ratio + below);
    }
  }

  _box(pen) {
    if (!this.box) return;
    const [a, b, c, d] = [this.box.x0, this.box.y0, this.box.x1 - this.box.x0, this.box.y1 - this.box.y0].map(
      (v) => v * this.ratio,
    );
    pen.fillStyle = ink("focus");
    pen.globalAlpha = 0.12;
    pen.fillRect(a, b, c, d);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink("focus");
    pen.lineWidth = this.ratio;
    pen.strokeRect(a, b, c, d);
  }

  _nearest(x, y) {
    let best = -1;
    let least = 24 ** 2;
    for (const place of this.seen ?? []) {
      const [px, py] = this._place(this.points[place]);
      const apart = (px - x) ** 2 + (py - y) ** 2;
      if (apart < least) [best, least] = [place, apart];
    }
    return best;
  }

  _listen(signal) {
    const { canvas } = this;
    let from = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const on = (name, act, more) => canvas.addEventListener(name, act, { signal, ...more });
    on("pointerdown", (event) => {
      const [x, y] = at(event);
      from = {
        x,
        y,
        shift: { ...this.shift },
        moved: false,
        selects: this.mode === "select" || event.shiftKey,
      };
      canvas.setPointerCapture(event.pointerId);
    });
    on("pointermove", (event) => {
      const [x, y] = at(event);
      if (!from) return this._hover(x, y);
      from.moved ||= Math.hypot(x - from.x, y - from.y) > 4;
      if (!from.moved) return;
      if (this.hovered >= 0) this._hover(-99, -99);
      if (from.selects) this.box = { x0: from.x, y0: from.y, x1: x, y1: y };
      else {
        this.isDragged = true;
        this.shift = { x: from.shift.x + x - from.x, y: from.shift.y + y - from.y };
      }
      this.draw();
    });
    on("pointerup", (event) => {
      const [x, y] = at(event);
      if (from && !from.moved) {
        const place = this._nearest(x, y);
        if (place >= 0) this.options.onpick?.(place);
        else if (this.chosen.size) this.options.onselect?.([]);
      } else if (this.box) this._select(this.box);
      from = this.box = null;
      this.isDragged = false;
      this.draw();
    });
    on("pointercancel", () => {
      from = this.box = null;
      this.isDragged = false;
      this.draw();
    });
    on("pointerleave", () => this._hover(-99, -99));
    on(
      "wheel",
      (event) => {
        event.preventDefault();
        this._zoomAt(Math.exp(-event.deltaY * 0.0015), ...at(event));
      },
      { passive: false },
    );
    on("dblclick", () => {
      this.reset();
      this.draw();
    });
    on("keydown", (event) => this._key(event));
  }

  _zoomAt(factor, x, y) {
    const next = Math.min(200, Math.max(0.5, this.zoom * factor));
    const real = next / this.zoom;
    this.shift = {
      x: (this.shift.x + this.width / 2 - x) * real + x - this.width / 2,
      y: (this.shift.y + this.height / 2 - y) * real + y - this.height / 2,
    };
    this.zoom = next;
    this.draw();
  }

  _key(event) {
    const step = 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) {
      const [x, y] = moves[event.key];
      this.shift = { x: this.shift.x + x, y: this.shift.y + y };
    } else if (event.key === "+" || event.key === "=")
      return this._zoomAt(1.4, this.width / 2, this.height / 2);
    else if (event.key === "-") return this._zoomAt(1 / 1.4, this.width / 2, this.height / 2);
    else if (event.key === "0") this.reset();
    else if (event.key === "Enter") return this._select({ x0: 0, y0: 0, x1: this.width, y1: this.height });
    else return;
    event.preventDefault();
    this.draw();
  }

  _select({ x0, y0, x1, y1 }) {
    const inside = (value, a, b) => value >= Math.min(a, b) && value <= Math.max(a, b);
    const places = [];
    this.points.forEach((point, place) => {
      const [x, y] = this._place(point);
      if (inside(x, x0, x1) && inside(y, y0, y1)) places.push(place);
    });
    this.options.onselect?.(places);
  }

  _hover(x, y) {
    const place = this._nearest(x, y);
    if (place === this.hovered) return;
    this.hovered = place;
    this.canvas.style.cursor = place >= 0 ? "pointer" : this.mode === "select" ? "crosshair" : "grab";
    this.tip.hidden = place < 0;
    if (place >= 0) {
      const [px, py] = this._place(this.points[place]);
      this.tip.replaceChildren(this.options.words(place));
      this.tip.style.left = `${Math.min(px + 12, this.width - 180)}px`;
      this.tip.style.top = `${py + 14}px`;
    }
    if (this.points.length < 300) this.draw();
  }
}
