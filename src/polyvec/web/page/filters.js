// Colouring and filtering by field.
import { categoryColor, rampColor, rampOf } from "./colors.js";
import { asEnd, asFieldNumber, asNumber, make } from "./dom.js";

/**
 * @typedef {import("./store.js").Field} Field
 * @typedef {import("./store.js").Filters} Filters
 * @typedef {Map<string, import("./store.js").Values>} Columns
 */

const LISTED = 40;

/**
 * One byte a point: 1 where every filter agrees; undefined without filters.
 * @param {Filters} filters
 * @param {Field[]} fields
 * @param {Columns} columns
 * @param {number} count
 * @returns {Uint8Array | undefined}
 */
export function maskOf(filters, fields, columns, count) {
  /** @type {Uint8Array | undefined} */
  let mask;
  for (const [name, chosen] of Object.entries(filters)) {
    const field = fields.find((f) => f.name === name);
    const column = columns.get(name);
    if (!field || !column || !chosen.length) continue;
    mask ??= new Uint8Array(count).fill(1);
    if (field.kind === "number") {
      const [low, high] = rangeOf(chosen);
      for (let i = 0; i < count; i++) if (!(column[i] >= low && column[i] <= high)) mask[i] = 0;
    } else {
      const codes = new Set(chosen.map((value) => (field.values ?? []).indexOf(value)));
      for (let i = 0; i < count; i++) if (!codes.has(column[i])) mask[i] = 0;
    }
  }
  return mask;
}

/** @param {string[]} chosen @returns {[number, number]} */
function rangeOf(chosen) {
  const [low, high] = (chosen[0] ?? "").split("..");
  return [low ? Number(low) : -Infinity, high ? Number(high) : Infinity];
}

/**
 * The legend of the field that colours; clicking a value filters by it.
 * @param {HTMLElement} box
 * @param {Field | undefined} field
 * @param {Filters} filters
 * @param {(filters: Filters) => void} onFilter
 */
export function showLegend(box, field, filters, onFilter) {
  box.replaceChildren();
  if (!field) return;
  if (field.kind === "number") {
    const ramp = make("canvas", { width: 64, height: 1 });
    const paper = ramp.getContext("2d");
    for (let i = 0; i < 64; i++) {
      paper.fillStyle = rampColor(i / 63);
      paper.fillRect(i, 0, 1, 1);
    }
    const [first, last] = rampOf(field);
    // The colours of the ends stand for everything beyond them too.
    const from = `${first > (field.low ?? first) ? "≤ " : ""}${asFieldNumber(field, first)}`;
    const to = `${last < (field.high ?? last) ? "≥ " : ""}${asFieldNumber(field, last)}`;
    return box.append(ramp, make("div", { className: "ends" }, make("span", {}, from), make("span", {}, to)));
  }
  const chosen = filters[field.name] ?? [];
  const items = (field.values ?? []).slice(0, LISTED).map((value, code) => {
    const swatch = make("i");
    swatch.style.background = categoryColor(code);
    const on = !chosen.length || chosen.includes(value);
    return make(
      "li",
      {},
      make(
        "button",
        { type: "button", "aria-pressed": String(on), onclick: () => onFilter(toggled(filters, field.name, value)) },
        swatch,
        make("span", {}, value || "(empty)"),
        make("small", {}, asNumber(field.counts?.[code] ?? 0)),
      ),
    );
  });
  box.append(make("ul", { "aria-label": `Values of ${field.name}` }, ...items));
}

/** @param {Filters} filters @param {string} name @param {string} value @returns {Filters} */
function toggled(filters, name, value) {
  const chosen = filters[name] ?? [];
  const next = chosen.includes(value) ? chosen.filter((v) => v !== value) : [...chosen, value];
  const { [name]: _, ...rest } = filters;
  return next.length ? { ...rest, [name]: next } : rest;
}

/**
 * A control for each field: a range for numbers, a list for categories.
 * @param {HTMLElement} box
 * @param {Field[]} fields
 * @param {Filters} filters
 * @param {(filters: Filters) => void} onFilter
 */
export function showFilters(box, fields, filters, onFilter) {
  /** @param {string} name @param {string[]} chosen */
  const set = (name, chosen) => {
    const { [name]: _, ...rest } = filters;
    onFilter(chosen.length ? { ...rest, [name]: chosen } : rest);
  };
  box.replaceChildren(
    ...fields.map((field) => {
      if (field.kind === "number") {
        const [low, high] = (filters[field.name]?.[0] ?? "..").split("..");
        const from = make("input", { type: "number", step: "any", value: low, placeholder: asEnd(field.low ?? 0, false), "aria-label": `${field.name} from` });
        const to = make("input", { type: "number", step: "any", value: high, placeholder: asEnd(field.high ?? 0, true), "aria-label": `${field.name} to` });
        const change = () => set(field.name, from.value || to.value ? [`${from.value}..${to.value}`] : []);
        from.addEventListener("change", change);
        to.addEventListener("change", change);
        return make("fieldset", {}, make("legend", {}, field.name), make("div", { className: "range" }, from, "–", to));
      }
      const chosen = filters[field.name] ?? [];
      const select = make(
        "select",
        { "aria-label": `Only ${field.name}`, onchange: () => set(field.name, select.value === "" ? [] : [select.value.slice(1)]) },
        make("option", { value: "" }, chosen.length > 1 ? `${chosen.length} chosen` : "any"),
        ...(field.values ?? []).map((value, code) =>
          make("option", { value: `=${value}`, selected: chosen.length === 1 && chosen[0] === value }, `${value || "(empty)"} (${asNumber(field.counts?.[code] ?? 0)})`),
        ),
      );
      return make("label", { className: "row" }, `${field.name} `, select);
    }),
  );
}
