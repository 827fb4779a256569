// The page: opens the collection, then keeps map, results, filters and address in step with one state.
import { EmbeddingError } from "../client/format.js";
import { paint, theme, token } from "./colors.js";
import { asFieldNumber, asNumber, byId, make } from "./dom.js";
import { maskOf, showFilters, showLegend } from "./filters.js";
import { setUpFind } from "./find.js";
import { ScatterMap } from "./map.js";
import { showQuestion, showResults, showStart, showSubject } from "./results.js";
import { MOST_K, readState, START_K, writeState } from "./state.js";
import { openStore } from "./store.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./store.js").Store} Store
 */

const HELP = {
  network: "Check that the file is where this page expects it and that the server answers, then try again.",
  size: "The file is cut short or belongs to another export. Publish the collection again.",
  legacy: "Files of the old float16 format have to be exported again: python -m polyvec.browser.",
  range: "The file may be damaged, or not be int8. Publish the collection again.",
  norm: "Vectors must have length one before they are quantised. Publish again, with --normalize if they have not.",
  hash: "The file is not the one that was published. If you have just published again, reload; else publish once more.",
  meta: "The description of the collection is damaged. Publish it again.",
  dtype: "Only int8 exports can be opened here.",
  count: "Vectors and records belong to different exports. Publish the collection again.",
};

/** @type {any} */ (globalThis).polyvec = { started: performance.now() };
document.documentElement.dataset.state = "loading";
setUpTheme();
setUpKeys();
byId("retry").addEventListener("click", () => location.reload());
start().catch(fail);

async function start() {
  const store = await openStore(showProgress);
  const page = new Page(store);
  Object.assign(/** @type {any} */ (globalThis).polyvec, { page, interactive: performance.now() });
  document.documentElement.dataset.state = "interactive";
  await store.ready;
  showProgress(1);
  Object.assign(/** @type {any} */ (globalThis).polyvec, { ready: performance.now() });
  document.documentElement.dataset.state = "ready";
}

/** @param {unknown} error */
function fail(error) {
  console.error(error);
  const code = error instanceof EmbeddingError ? error.code : "meta";
  byId("error-text").textContent = error instanceof Error ? error.message : String(error);
  byId("error-help").textContent = HELP[/** @type {keyof typeof HELP} */ (code)] ?? "";
  byId("error").hidden = false;
  byId("error").dataset.code = code;
  document.documentElement.dataset.state = "failed";
  byId("retry").focus();
}

/** @param {number} part */
function showProgress(part) {
  const bar = byId("progress");
  bar.firstElementChild.style.transform = `scaleX(${Math.min(1, part)})`;
  bar.setAttribute("aria-valuenow", String(Math.round(100 * Math.min(1, part))));
  bar.classList.toggle("done", part >= 1);
}

class Page {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.site = store.site;
    this.count = store.points.length / 2;
    /** @type {import("./filters.js").Columns} */
    this.columns = new Map();
    /** @type {Map<number, number> | null} */
    this.pointOfRow = store.rowOfPoint ? new Map(Array.from(store.rowOfPoint, (row, i) => [row, i])) : null;
    this.startColor = (this.site.fields.find((f) => f.kind === "category" && (f.values?.length ?? 0) <= 12) ?? this.site.fields[0])?.name ?? "";
    this.state = readState(location.hash, this.startColor);
    /** @type {import("./results.js").Shown[]} */
    this.shown = [];
    this.asked = "";
    this.turn = 0;
    this.map = new ScatterMap(byId("map"), byId("marks"), {
      onHover: (point, x, y) => void this.hover(point, x, y),
      onPick: (point) => this.ask(this.rowAt(point)),
      onMove: () => this.keepView(),
    });
    this.map.label = (point) => this.store.nameNow(this.rowAt(point));
    this.map.setPoints(store.points);
    this.map.setView(viewOf(this.state));
    this.setUp();
    void this.render();
  }

  setUp() {
    const { site } = this;
    document.title = site.title;
    byId("title").textContent = site.title;
    byId("about").textContent = `${counted(site.rows, "row")} × ${counted(site.dim, "dimension")}${site.format ? ` · ${site.format}` : ""}`;
    byId("method").textContent = site.map.note;
    const find = byId("find");
    find.disabled = false;
    if (site.text_query) find.placeholder = "Find by name or meaning";
    setUpFind(find, byId("suggestions"), {
      suggest: this.store.suggest,
      rows: site.rows,
      onRow: (row) => this.ask(row),
      onText: site.text_query ? (text) => this.go({ q: text, row: null, id: null, hit: null, k: START_K }) : undefined,
    });
    const color = byId("color");
    color.replaceChildren(make("option", { value: "" }, "nothing"), ...site.fields.map((f) => make("option", { value: f.name }, f.name)));
    color.addEventListener("change", () => this.go({ color: color.value }));
    byId("panel").hidden = !site.fields.length;
    const wide = matchMedia("(min-width: 821px)");
    const panel = byId("panel");
    panel.open = wide.matches;
    const cover = () => this.map.setCovered(wide.matches && panel.open && !panel.hidden ? panel.offsetWidth + 16 : 0);
    panel.addEventListener("toggle", cover);
    wide.addEventListener("change", cover);
    cover();
    byId("clear").addEventListener("click", () => this.go({ filters: {} }));
    byId("more").addEventListener("click", () => this.go({ k: Math.min(MOST_K, this.state.k * 2) }));
    byId("zoom-in").addEventListener("click", () => this.map.zoomBy(1.6));
    byId("zoom-out").addEventListener("click", () => this.map.zoomBy(1 / 1.6));
    byId("zoom-fit").addEventListener("click", () => this.map.fit());
    addEventListener("popstate", () => this.returnTo());
    addEventListener("hashchange", () => this.returnTo());
    document.addEventListener("polyvec-theme", () => void this.recolor());
  }

  /** @param {number} point */
  rowAt(point) {
    return this.store.rowOfPoint ? this.store.rowOfPoint[point] : point;
  }

  /** @param {number | null} row */
  pointAt(row) {
    if (row === null || row < 0) return -1;
    if (this.pointOfRow) return this.pointOfRow.get(row) ?? -1;
    return row < this.count ? row : -1;
  }

  /** Ask for the neighbours of a row. @param {number} row */
  ask(row) {
    this.go({ row, id: null, q: "", hit: null, k: START_K });
  }

  /**
   * Let row and id of the state name the same row. Where they do not the id is right: it outlives another order of rows.
   * @param {number} turn
   */
  async settle(turn) {
    const { row, id } = this.state;
    if (!this.site.ids || (row === null && id === null) || (row !== null && row >= this.site.rows)) return;
    const held = row === null ? undefined : await this.store.idOf(row);
    const at = id === null || held === id ? row : await this.store.rowOf(id);
    if (turn !== this.turn) return;
    this.state = { ...this.state, row: at, id: id ?? held ?? null };
    if (at !== -1) history.replaceState(null, "", writeState(this.state, this.startColor) || location.pathname + location.search);
  }

  /** A new state with an address of its own. @param {Partial<State>} change */
  go(change) {
    clearTimeout(this.keeping);
    const view = this.map.getView();
    this.state = { ...this.state, view: view && [view.x, view.y, view.z], ...change };
    const address = writeState(this.state, this.startColor);
    if (address !== location.hash) history.pushState(null, "", address || location.pathname + location.search);
    void this.render();
  }

  /** The address changed: a link, or the way back. */
  returnTo() {
    const state = readState(location.hash, this.startColor);
    if (writeState(state, this.startColor) === writeState(this.state, this.startColor)) return;
    this.state = state;
    this.map.setView(viewOf(state));
    void this.render();
  }

  /** The view belongs to the address, but panning makes no history. */
  keepView() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => {
      const view = this.map.getView();
      this.state = { ...this.state, view: view && [view.x, view.y, view.z] };
      history.replaceState(null, "", writeState(this.state, this.startColor) || location.pathname + location.search);
    }, 250);
  }

  async render() {
    const turn = ++this.turn;
    const { site } = this;
    try {
      await this.settle(turn);
      if (turn !== this.turn) return;
      const { state } = this;
      await this.recolor();
      const mask = await this.filter();
      if (turn !== this.turn) return;
      const asked = JSON.stringify([state.row, state.q, state.k, state.filters]);
      if (asked !== this.asked) {
        const moved = this.asked !== "" || !state.view;
        await this.search(mask, turn);
        if (turn !== this.turn) return;
        this.asked = asked;
        if (moved && this.subjectChanged(asked)) this.map.flyTo([this.pointAt(state.row), ...this.shown.map((s) => this.pointAt(s.row))]);
      }
      this.list();
      this.mark(-1);
    } catch (error) {
      if (turn !== this.turn) return;
      if (error instanceof EmbeddingError && site.source === "static") return fail(error);
      byId("results").replaceChildren();
      byId("status").textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** Whether another row or text is asked about than the last time the map moved. @param {string} asked */
  subjectChanged(asked) {
    const subject = JSON.stringify(JSON.parse(asked).slice(0, 2));
    const changed = subject !== this.lastSubject && (this.state.row !== null || this.state.q !== "");
    this.lastSubject = subject;
    return changed;
  }

  /** @param {Uint8Array | undefined} mask @param {number} turn */
  async search(mask, turn) {
    const { state, site, store } = this;
    const status = byId("status");
    const subject = byId("subject");
    const over = () => this.go({ row: null, id: null, q: "", hit: null, k: START_K });
    if (state.row === null && !state.q) {
      subject.hidden = true;
      status.replaceChildren();
      this.shown = [];
      const rows = startingRows(site.rows, mask, this.store.rowOfPoint);
      const names = await store.namesOf(rows);
      if (turn === this.turn) showStart(byId("results"), rows.map((row, i) => ({ row, name: names[i] })), (row) => this.ask(row), !!site.text_query);
      return;
    }
    if (state.row !== null && (state.row < 0 || state.row >= site.rows)) {
      subject.hidden = true;
      this.shown = [];
      const wanted = state.row < 0 ? `with the id ${state.id}` : asNumber(state.row);
      status.textContent = `There is no row ${wanted}: this collection has ${counted(site.rows, "row")}.`;
      return;
    }
    if (state.row !== null) {
      const row = state.row;
      const [[name], [entry]] = await Promise.all([store.namesOf([row]), store.entries([row])]);
      if (turn !== this.turn) return;
      showSubject(subject, site, row, name, entry, over);
    } else {
      showQuestion(subject, state.q, over);
    }
    if (document.documentElement.dataset.state !== "ready") {
      byId("results").replaceChildren();
      status.textContent = "Vectors are on their way…";
    }
    await store.ready;
    const start = performance.now();
    const question = state.row !== null ? { row: state.row } : { text: state.q };
    const hits = await store.search(question, state.k + (state.row !== null ? 1 : 0), state.filters, mask);
    const took = performance.now() - start;
    const others = hits.filter((hit) => hit.row !== state.row).slice(0, state.k);
    const rows = others.map((hit) => hit.row);
    const [names, entries] = await Promise.all([store.namesOf(rows), store.entries(rows)]);
    if (turn !== this.turn) return;
    this.shown = others.map(({ row, score }, i) => ({ row, score, name: names[i], entry: entries[i] }));
    status.replaceChildren(
      make("span", {}, others.length ? `${asNumber(others.length)} nearest` : mask ? "Nothing else matches these filters" : "There is no other row"),
      make("span", {}, `${took < 10 ? took.toFixed(1) : Math.round(took)} ms`),
    );
  }

  list() {
    const { state, site } = this;
    byId("more").hidden = !this.shown.length || this.shown.length < state.k || state.k >= MOST_K;
    if (!this.shown.length) {
      if (state.row !== null || state.q) byId("results").replaceChildren();
      return;
    }
    const focused = document.activeElement?.getAttribute("data-row");
    const { codes, colors } = this.painted ?? { codes: new Uint8Array(0), colors: [token("--point")] };
    showResults(byId("results"), site, this.shown, {
      open: state.hit,
      colorOf: (row) => colors[codes[this.pointAt(row)] ?? 0] ?? token("--point"),
      onOpen: (row) => this.go({ hit: state.hit === row ? null : row }),
      onMore: (row) => this.ask(row),
      onPoint: (row) => this.mark(row),
    });
    if (focused) byId("results").querySelector(`[data-row="${Number(focused)}"]`)?.focus();
  }

  /** Rings on the map. @param {number} focus */
  mark(focus) {
    const { state } = this;
    this.map.setMarks({
      subject: this.pointAt(state.row),
      near: this.shown.slice(0, 50).map((s) => this.pointAt(s.row)),
      focus: this.pointAt(focus >= 0 ? focus : state.hit),
    });
  }

  async recolor() {
    const { site, state } = this;
    const field = site.fields.find((f) => f.name === state.color);
    byId("color").value = field ? field.name : "";
    const column = field && (await this.column(field));
    this.painted = paint(field, column, this.count);
    this.map.setColors(this.painted.codes, this.painted.colors);
    showLegend(byId("legend"), field, state.filters, (filters) => this.go({ filters }));
    if (this.shown.length) this.list();
  }

  /** Show the filters, grey out what they leave; the mask of what remains. */
  async filter() {
    const { site, state } = this;
    showFilters(byId("filters"), site.fields.filter((f) => f.name !== state.color || f.kind === "number"), state.filters, (filters) => this.go({ filters }));
    const used = site.fields.filter((f) => state.filters[f.name]);
    await Promise.all(used.map((field) => this.column(field)));
    const mask = maskOf(state.filters, site.fields, this.columns, this.count);
    this.map.setAllowed(mask);
    byId("clear").hidden = !mask;
    const left = mask ? mask.reduce((sum, on) => sum + on, 0) : 0;
    byId("filtered").hidden = !mask;
    byId("filtered").textContent = mask ? `${asNumber(left)} left` : "";
    byId("filtered").title = `of ${asNumber(this.count)}`;
    return mask;
  }

  /** @param {import("./store.js").Field} field */
  async column(field) {
    let column = this.columns.get(field.name);
    if (!column) {
      column = await this.store.column(field);
      this.columns.set(field.name, column);
    }
    return column;
  }

  /** @param {number} point @param {number} x @param {number} y */
  async hover(point, x, y) {
    const tip = byId("tip");
    this.hovered = point;
    if (point < 0) {
      tip.hidden = true;
      return;
    }
    const row = this.rowAt(point);
    const [name] = await this.store.namesOf([row]).catch(() => [""]);
    if (this.hovered !== point) return;
    const field = this.site.fields.find((f) => f.name === this.state.color);
    const value = field && this.columns.get(field.name)?.[point];
    const note = field && value !== undefined ? (field.kind === "number" ? asFieldNumber(field, value) : field.values?.[value]) : "";
    tip.replaceChildren(name || `Row ${row}`, note ? make("small", {}, `${field?.name}: ${note}`) : "");
    tip.hidden = false;
    const left = Math.min(this.map.width - tip.offsetWidth - 8, x + 14);
    const top = y + 20 + tip.offsetHeight > this.map.height ? y - tip.offsetHeight - 10 : y + 16;
    tip.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
  }
}

/** @param {number} count @param {string} what */
function counted(count, what) {
  return `${asNumber(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** @param {State} state */
function viewOf(state) {
  return state.view && { x: state.view[0], y: state.view[1], z: state.view[2] };
}

/**
 * Eight rows spread over the collection, of those that the filters leave.
 * @param {number} rows
 * @param {Uint8Array | undefined} mask
 * @param {Uint32Array | null} rowOfPoint
 */
function startingRows(rows, mask, rowOfPoint) {
  const points = rowOfPoint ? rowOfPoint.length : rows;
  const wanted = Math.min(8, points);
  const out = new Set();
  for (let i = 0; i < wanted; i++) {
    let point = Math.floor(((i + 0.382) * points) / wanted) % points;
    for (let tries = 0; mask && !mask[point] && tries < points; tries++) point = (point + 1) % points;
    if (!mask || mask[point]) out.add(rowOfPoint ? rowOfPoint[point] : point);
  }
  return [...out];
}

function setUpTheme() {
  const kept = () => {
    try {
      return localStorage.getItem("polyvec-theme");
    } catch {
      return null; // Pages opened from disk may have no storage.
    }
  };
  const system = matchMedia("(prefers-color-scheme: light)");
  const apply = () => {
    document.documentElement.dataset.theme = kept() ?? (system.matches ? "light" : "dark");
    document.dispatchEvent(new Event("polyvec-theme"));
  };
  apply();
  system.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => {
    const next = theme() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("polyvec-theme", next);
    } catch {
      // Then the choice lasts as long as the page.
    }
    document.documentElement.dataset.theme = next;
    document.dispatchEvent(new Event("polyvec-theme"));
  });
}

function setUpKeys() {
  byId("help").addEventListener("click", () => byId("keys").showModal());
  document.querySelector(".skip")?.addEventListener("click", (e) => {
    e.preventDefault(); // the address holds the state, not a place in the page
    byId("results").focus();
  });
  document.addEventListener("keydown", (e) => {
    const target = /** @type {HTMLElement} */ (e.target);
    if (e.ctrlKey || e.metaKey || e.altKey || byId("keys").open) return;
    const hits = [...document.querySelectorAll("#results .hit")];
    const at = hits.indexOf(target);
    if (at >= 0 && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      e.preventDefault();
      const next = /** @type {HTMLElement | undefined} */ (hits[at + (e.key === "ArrowDown" ? 1 : -1)]);
      next?.focus();
      return;
    }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const page = /** @type {any} */ (globalThis).polyvec.page;
    /** @type {Record<string, () => void>} */
    const keys = {
      "/": () => byId("find").focus(),
      "?": () => byId("keys").showModal(),
      t: () => byId("theme").click(),
      g: () => byId("map").focus(),
      m: () => at >= 0 && page?.ask(Number(target.getAttribute("data-row"))),
      Escape: () => page?.state.hit !== null ? page?.go({ hit: null }) : page?.go({ row: null, id: null, q: "", k: START_K }),
      ArrowDown: () => /** @type {HTMLElement | undefined} */ (hits[0])?.focus(),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
}
