// The map: every row a dot on a canvas (dots.js); marks (hover, the row asked about, its neighbours, labels) lie on a
// second canvas above. What is where is found by a grid (grid.js), and gestures.js moves it all.
import { token } from "./colors.js";
import { pack, paintDots } from "./dots.js";
import { listen } from "./gestures.js";
import { PointGrid, UNIT } from "./grid.js";

/**
 * @typedef {{x: number, y: number, z: number}} View   centre in map units (0 to 1) and zoom (1 shows everything)
 * @typedef {object} MapEvents
 * @property {(point: number, x: number, y: number) => void} onHover   point -1: nothing there
 * @property {(point: number) => void} onPick
 * @property {() => void} onMove    the view changed
 */

const FULL = { x: 0.5, y: 0.5, z: 1 };
const MOST_ZOOM = 400;

export class ScatterMap {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLCanvasElement} over
   * @param {MapEvents} events
   */
  constructor(canvas, over, events) {
    this.canvas = canvas;
    this.over = over;
    this.events = events;
    this.paper = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    this.marks = /** @type {CanvasRenderingContext2D} */ (over.getContext("2d"));
    this.width = 1;
    this.height = 1;
    /** CSS pixels at the left that a panel covers: everything is laid out in what remains. */
    this.covered = 0;
    /** @type {Uint16Array} */
    this.points = new Uint16Array(0);
    this.grid = new PointGrid(this.points);
    this.count = 0;
    /** @type {Uint8Array} */
    this.codes = new Uint8Array(0);
    /** @type {ImageData | undefined} */
    this.image = undefined;
    /** Packed colours, as pixels hold them. @type {number[]} */
    this.colors = [0x808080];
    /** @type {Uint8Array | undefined} */
    this.allowed = undefined;
    /** @type {View} */
    this.view = { ...FULL };
    this.subject = -1;
    /** @type {number[]} */
    this.near = [];
    this.focus = -1;
    this.hover = -1;
    /** @type {(point: number) => string | undefined} */
    this.label = () => undefined;
    this.moving = false;
    this.frame = 0;
    this.flight = 0;
    this.lastDraw = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
    listen(this);
    this.resize();
  }

  /** @param {Uint16Array} points x, y pairs */
  setPoints(points) {
    this.points = points;
    this.count = points.length / 2;
    this.codes = new Uint8Array(this.count);
    this.grid = new PointGrid(points);
    this.redraw();
  }

  /** @param {Uint8Array} codes @param {string[]} colors */
  setColors(codes, colors) {
    this.codes = codes;
    this.colors = colors.map(pack);
    this.redraw();
  }

  /** @param {Uint8Array | undefined} allowed one byte a point */
  setAllowed(allowed) {
    this.allowed = allowed;
    this.redraw();
  }

  /** @param {{subject: number, near: number[], focus: number}} marks */
  setMarks({ subject, near, focus }) {
    this.subject = subject;
    this.near = near.filter((point) => point >= 0);
    this.focus = focus;
    this.redraw();
  }

  /** @param {View | null} view null shows everything */
  setView(view) {
    cancelAnimationFrame(this.flight);
    this.view = view ? this.limit(view) : { ...FULL };
    this.redraw();
  }

  /** @returns {View | null} null where everything is shown */
  getView() {
    const { x, y, z } = this.view;
    return Math.abs(z - 1) < 1e-3 && Math.hypot(x - 0.5, y - 0.5) < 1e-3 ? null : this.view;
  }

  /** Move smoothly until these points are in sight. @param {number[]} points */
  flyTo(points) {
    const shown = points.filter((point) => point >= 0);
    if (!shown.length) return;
    const xs = shown.map((p) => this.points[2 * p] / UNIT);
    const ys = shown.map((p) => this.points[2 * p + 1] / UNIT);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const span = Math.max(right - left, bottom - top, 0.04) * 2.1;
    this.fly({ x: (left + right) / 2, y: (top + bottom) / 2, z: Math.min(5, Math.max(1, 1 / span)) });
  }

  /** @param {View} to */
  fly(to) {
    cancelAnimationFrame(this.flight);
    const from = { ...this.view };
    const goal = this.limit(to);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return this.moveTo(goal);
    const start = performance.now();
    const step = (/** @type {number} */ now) => {
      const t = Math.min(1, (now - start) / 380);
      const ease = 1 - (1 - t) ** 3;
      const z = from.z * (goal.z / from.z) ** ease;
      this.moveTo({ x: from.x + (goal.x - from.x) * ease, y: from.y + (goal.y - from.y) * ease, z }, t < 1);
      if (t < 1) this.flight = requestAnimationFrame(step);
    };
    this.flight = requestAnimationFrame(step);
  }

  fit() {
    this.fly({ ...FULL });
  }

  /** @param {number} factor */
  zoomBy(factor) {
    this.fly({ ...this.view, z: this.view.z * factor });
  }

  /** @param {View} view @param {boolean} [moving] */
  moveTo(view, moving = false) {
    this.view = this.limit(view);
    this.moving = moving;
    this.redraw();
    this.events.onMove();
  }

  /** @param {View} view @returns {View} */
  limit({ x, y, z }) {
    const clamp = (/** @type {number} */ v) => Math.min(1.1, Math.max(-0.1, v));
    return { x: clamp(x), y: clamp(y), z: Math.min(MOST_ZOOM, Math.max(0.5, z)) };
  }

  /** CSS pixels a map unit. */
  scale() {
    return Math.min(this.width - this.covered, this.height) * 0.92 * this.view.z;
  }

  /** The x of the view's centre, in CSS pixels. */
  middle() {
    return (this.width + this.covered) / 2;
  }

  /** @param {number} covered */
  setCovered(covered) {
    if (covered === this.covered) return;
    this.covered = covered;
    this.redraw();
  }

  /** Where a point lies, in CSS pixels. @param {number} point @returns {[number, number]} */
  place(point) {
    const s = this.scale();
    return [
      (this.points[2 * point] / UNIT - this.view.x) * s + this.middle(),
      (this.points[2 * point + 1] / UNIT - this.view.y) * s + this.height / 2,
    ];
  }

  resize() {
    this.width = Math.max(1, this.canvas.clientWidth);
    this.height = Math.max(1, this.canvas.clientHeight);
    this.redraw();
  }

  redraw() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }
  }

  draw() {
    const start = performance.now();
    // While many points move, one pixel a CSS pixel is enough; the sharp picture follows when they rest.
    const ratio = this.moving && this.count > 20000 ? 1 : Math.min(2, devicePixelRatio || 1);
    this.drawPoints(ratio);
    this.drawMarks(Math.min(2, devicePixelRatio || 1));
    this.lastDraw = performance.now() - start;
    if (this.moving) {
      clearTimeout(this.settling);
      this.settling = setTimeout(() => {
        this.moving = false;
        this.redraw();
      }, 160);
    }
  }

  /** The radius of a dot in CSS pixels: room to each, larger when near. */
  radius() {
    const room = Math.sqrt((this.width * this.height) / Math.max(1, this.count));
    return Math.min(8, Math.max(1.25, Math.min(5, room * 0.14)) * (1 + Math.log2(Math.max(1, this.view.z)) * 0.26));
  }

  /** @param {number} ratio */
  drawPoints(ratio) {
    const { canvas, points, count, codes, colors, allowed } = this;
    const width = Math.round(this.width * ratio);
    const height = Math.round(this.height * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      this.image = undefined;
    }
    this.image ??= this.paper.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(0xff000000 | pack(token("--ground")));
    const scale = (this.scale() * ratio) / UNIT;
    const shift = { x: this.middle() * ratio - this.view.x * UNIT * scale, y: height / 2 - this.view.y * UNIT * scale };
    paintDots(
      { pixels, width, height },
      { points, count, codes, colors, allowed, faint: pack(token("--dim")) },
      { radius: this.radius() * ratio, scale, shift },
    );
    this.paper.putImageData(this.image, 0, 0);
  }

  /** @param {number} ratio */
  drawMarks(ratio) {
    const { over, marks } = this;
    const width = Math.round(this.width * ratio);
    const height = Math.round(this.height * ratio);
    if (over.width !== width || over.height !== height) {
      over.width = width;
      over.height = height;
    }
    marks.setTransform(ratio, 0, 0, ratio, 0, 0);
    marks.clearRect(0, 0, this.width, this.height);
    const r = this.radius();
    const accent = token("--accent");
    const text = token("--text");
    if (this.subject >= 0) {
      const [sx, sy] = this.place(this.subject);
      marks.strokeStyle = accent;
      marks.globalAlpha = 0.35;
      marks.lineWidth = 1;
      marks.beginPath();
      for (const point of this.near) {
        const [x, y] = this.place(point);
        marks.moveTo(sx, sy);
        marks.lineTo(x, y);
      }
      marks.stroke();
      marks.globalAlpha = 1;
    }
    for (const point of this.near) this.ring(point, r + 2.5, text, 1.5);
    if (this.subject >= 0) this.ring(this.subject, r + 5, accent, 3);
    if (this.focus >= 0) this.ring(this.focus, r + 6, token("--warm"), 3);
    if (this.hover >= 0) this.ring(this.hover, r + 3, text, 2);
    this.drawLabels(r);
  }

  /** @param {number} point @param {number} radius @param {string} color @param {number} width */
  ring(point, radius, color, width) {
    const [x, y] = this.place(point);
    this.marks.beginPath();
    this.marks.arc(x, y, radius, 0, 2 * Math.PI);
    this.marks.strokeStyle = color;
    this.marks.lineWidth = width;
    this.marks.stroke();
  }

  /** Names beside dots: the row asked about and its neighbours first, then others once few are in sight. */
  drawLabels(/** @type {number} */ r) {
    const wanted = [this.subject, this.focus, ...this.near.slice(0, 12)].filter((p) => p >= 0);
    const inSight = this.inSight(250);
    if (inSight.length <= 220 && !this.moving) wanted.push(...inSight);
    /** @type {[number, number, number, number][]} */
    const taken = [];
    const seen = new Set();
    const { marks } = this;
    marks.font = "500 12px system-ui, sans-serif";
    marks.textBaseline = "middle";
    marks.lineJoin = "round";
    marks.lineWidth = 3.5;
    marks.strokeStyle = token("--ground");
    for (const point of wanted) {
      if (seen.has(point) || taken.length >= 45) continue;
      seen.add(point);
      const full = this.label(point);
      if (!full) continue;
      const name = full.length > 28 ? `${full.slice(0, 27)}…` : full;
      const [px, py] = this.place(point);
      const x = px + r + 6;
      const wide = marks.measureText(name).width;
      if (x < 0 || x + wide > this.width || py < 8 || py > this.height - 8) continue;
      if (taken.some(([a, b, c, d]) => x < c && x + wide > a && py - 9 < d && py + 9 > b)) continue;
      taken.push([x - 4, py - 9, x + wide + 4, py + 9]);
      marks.fillStyle = point === this.subject ? token("--accent") : token("--text");
      marks.strokeText(name, x, py);
      marks.fillText(name, x, py);
    }
  }

  /** Points in sight, at most `most + 1` of them. @param {number} most @returns {number[]} */
  inSight(most) {
    const s = this.scale();
    const left = this.view.x - this.middle() / s;
    const top = this.view.y - this.height / 2 / s;
    const right = left + this.width / s;
    const bottom = top + this.height / s;
    /** @type {number[]} */
    const found = [];
    this.grid.eachNear(left, top, right, bottom, (point) => {
      const x = this.points[2 * point] / UNIT;
      const y = this.points[2 * point + 1] / UNIT;
      if (x >= left && x <= right && y >= top && y <= bottom && (!this.allowed || this.allowed[point])) found.push(point);
      return found.length <= most;
    });
    return found;
  }

  /** The point nearest to a place in CSS pixels, -1 where none is near. @param {number} px @param {number} py */
  pick(px, py, reach = 14) {
    const s = this.scale();
    const x = (px - this.middle()) / s + this.view.x;
    const y = (py - this.height / 2) / s + this.view.y;
    const d = reach / s;
    let best = -1;
    let nearest = d * d;
    this.grid.eachNear(x - d, y - d, x + d, y + d, (point) => {
      if (this.allowed && !this.allowed[point]) return true;
      const distance = (this.points[2 * point] / UNIT - x) ** 2 + (this.points[2 * point + 1] / UNIT - y) ** 2;
      if (distance < nearest) {
        nearest = distance;
        best = point;
      }
      return true;
    });
    return best;
  }

  /** @param {number} px @param {number} py @param {number} factor */
  zoomAt(px, py, factor) {
    const before = this.scale();
    const { z } = this.limit({ ...this.view, z: this.view.z * factor });
    const after = (before * z) / this.view.z;
    const shift = (/** @type {number} */ p, /** @type {number} */ middle) => (p - middle) * (1 / before - 1 / after);
    this.moveTo({ x: this.view.x + shift(px, this.middle()), y: this.view.y + shift(py, this.height / 2), z }, true);
  }

  /** @param {number} px @param {number} py */
  hoverAt(px, py) {
    const point = px < 0 ? -1 : this.pick(px, py);
    this.canvas.classList.toggle("over", point >= 0);
    this.events.onHover(point, px, py);
    if (point === this.hover) return;
    this.hover = point;
    this.drawMarks(Math.min(2, devicePixelRatio || 1));
  }
}
