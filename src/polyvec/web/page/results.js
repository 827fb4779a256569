// The record one asks about and the rows nearest to it.
import { asFact, asText, fillIn, make, safeAddress } from "./dom.js";

/**
 * @typedef {import("./store.js").Entry} Entry
 * @typedef {import("./store.js").Site} Site
 */

/**
 * The heading record: name, picture, text, every field.
 * @param {HTMLElement} box
 * @param {Site} site
 * @param {number} row
 * @param {string} name
 * @param {Entry} entry
 * @param {() => void} onClose
 */
export function showSubject(box, site, row, name, entry, onClose) {
  const image = safeAddress(site.roles.image && entry[site.roles.image]);
  fillIn(
    box,
    make(
      "div",
      { className: "lead" },
      image && picture(image, name),
      make("div", {}, make("p", { className: "kicker" }, `Nearest to · #${row}`), make("h2", { dir: "auto" }, name || `Row ${row}`), blurb(site, entry)),
    ),
    facts(site, entry),
    make("div", { className: "acts" }, linkOf(site, entry), make("button", { type: "button", id: "close-subject", onclick: onClose }, "Start over")),
  );
  box.hidden = false;
}

/**
 * The heading of a search by meaning.
 * @param {HTMLElement} box
 * @param {string} text
 * @param {() => void} onClose
 */
export function showQuestion(box, text, onClose) {
  box.replaceChildren(
    make("p", { className: "kicker" }, "Nearest in meaning to"),
    make("h2", {}, `“${text}”`),
    make("div", { className: "acts" }, make("button", { type: "button", id: "close-subject", onclick: onClose }, "Start over")),
  );
  box.hidden = false;
}

/**
 * @typedef {object} Shown
 * @property {number} row
 * @property {number} score
 * @property {string} name
 * @property {Entry} entry
 */

/**
 * The list of neighbours.
 * @param {HTMLElement} list
 * @param {Site} site
 * @param {Shown[]} shown
 * @param {object} given
 * @param {number | null} given.open
 * @param {(row: number) => string} given.colorOf
 * @param {(row: number) => void} given.onOpen
 * @param {(row: number) => void} given.onMore
 * @param {(row: number) => void} given.onPoint   the result in focus or under the pointer, -1 for none
 */
export function showResults(list, site, shown, { open, colorOf, onOpen, onMore, onPoint }) {
  const top = Math.max(...shown.map((s) => s.score), 1e-9);
  list.replaceChildren(
    ...shown.map(({ row, score, name, entry }, i) => {
      const image = safeAddress(site.roles.image && entry[site.roles.image]);
      const bar = make("u");
      bar.style.transform = `scaleX(${Math.max(0, score / top)})`;
      const mark = image ? picture(image, "") : make("span", { className: "dot" });
      if (!image) mark.style.background = colorOf(row);
      const isOpen = row === open;
      const hit = make(
        "button",
        {
          type: "button",
          className: "hit",
          "aria-expanded": String(isOpen),
          "data-row": row,
          onclick: () => onOpen(row),
          onfocus: () => onPoint(row),
          onblur: () => onPoint(-1),
        },
        make("span", { className: "rank" }, String(i + 1)),
        mark,
        make("span", {}, make("b", { dir: "auto" }, name || `Row ${row}`), make("small", { dir: "auto" }, subtitle(site, entry))),
        make("span", { className: "score" }, score.toFixed(3), make("i", {}, bar)),
      );
      return make(
        "li",
        { className: isOpen ? "open" : "", onpointerenter: () => onPoint(row), onpointerleave: () => onPoint(-1) },
        hit,
        isOpen &&
          make(
            "div",
            { className: "inner" },
            blurb(site, entry),
            facts(site, entry),
            make(
              "div",
              { className: "acts" },
              make("button", { type: "button", className: "main", onclick: () => onMore(row) }, "More like this"),
              linkOf(site, entry),
            ),
          ),
      );
    }),
  );
}

/**
 * What a visitor sees first: what this is, and some rows to begin with.
 * @param {HTMLElement} list
 * @param {import("./store.js").Named[]} some
 * @param {(row: number) => void} onRow
 * @param {boolean} byMeaning
 */
export function showStart(list, some, onRow, byMeaning) {
  const how = byMeaning ? "Type a name, or a few words to search by meaning" : "Type a name";
  list.replaceChildren(
    make(
      "li",
      { className: "start" },
      make("p", {}, `${how}, click a dot on the map, or begin with one of these:`),
      make("div", { className: "chips" }, ...some.map(({ row, name }) => make("button", { type: "button", dir: "auto", onclick: () => onRow(row) }, name || `Row ${row}`))),
    ),
  );
}

/** @param {string} address @param {string} alt */
function picture(address, alt) {
  const image = make("img", { alt, loading: "lazy", decoding: "async", referrerPolicy: "no-referrer", src: address });
  image.addEventListener("error", () => image.remove());
  return image;
}

/** @param {Site} site @param {Entry} entry */
function blurb(site, entry) {
  const text = site.roles.text ? asText(entry[site.roles.text]) : "";
  return text ? make("p", { className: "blurb", dir: "auto" }, text.length > 600 ? `${text.slice(0, 600)}…` : text) : null;
}

/** @param {Site} site @param {Entry} entry */
function subtitle(site, entry) {
  const { text } = site.roles;
  if (text && asText(entry[text])) return asText(entry[text]).slice(0, 300);
  const names = site.fields.map((field) => field.name).filter((name) => name !== site.roles.name);
  return names.slice(0, 3).map((name) => asFact(entry[name]).slice(0, 100)).filter(Boolean).join(" · ");
}

/** @param {Site} site @param {Entry} entry */
function facts(site, entry) {
  const told = new Set(Object.values(site.roles));
  const rest = Object.entries(entry ?? {}).filter(([key, value]) => !told.has(key) && asText(value) !== "");
  if (!rest.length) return null;
  return make(
    "dl",
    { className: "facts" },
    ...rest.slice(0, 24).flatMap(([key, value]) => [
      make("dt", {}, key),
      make("dd", { dir: "auto" }, asFact(value)),
    ]),
  );
}

/** @param {Site} site @param {Entry} entry */
function linkOf(site, entry) {
  const address = safeAddress(site.roles.link && entry[site.roles.link]);
  return address ? make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, "Open page ↗") : null;
}
