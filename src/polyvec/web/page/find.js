// Type-ahead: a combobox over names, and over meanings where a model stands behind the page.
import { make } from "./dom.js";
import { fold } from "./store.js";

const SHOWN = 12;

/**
 * @param {HTMLInputElement} input
 * @param {HTMLElement} list
 * @param {object} given
 * @param {(limit: number, text: string) => Promise<import("./store.js").Named[]>} given.suggest
 * @param {number} given.rows   how many rows there are: a number names one
 * @param {(row: number) => void} given.onRow
 * @param {((text: string) => void) | undefined} given.onText  where texts can be searched by meaning
 */
export function setUpFind(input, list, { suggest, rows, onRow, onText }) {
  /** @type {Array<() => void>} */
  let choices = [];
  let active = -1;
  let turn = 0;

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  };
  /** @param {number} to */
  const activate = (to) => {
    if (!choices.length) return;
    active = (to + choices.length) % choices.length;
    [...list.children].forEach((item, i) => {
      item.setAttribute("aria-selected", String(i === active));
      if (i === active) item.scrollIntoView({ block: "nearest" });
    });
    input.setAttribute("aria-activedescendant", `suggestion-${active}`);
  };
  /** @param {number} which */
  const choose = (which) => {
    const act = choices[which];
    close();
    if (act) {
      input.blur();
      act();
    }
  };

  const update = async () => {
    const text = input.value.trim();
    const mine = ++turn;
    if (!text) return close();
    const found = await suggest(SHOWN, text).catch(() => []);
    if (mine !== turn || document.activeElement !== input) return;
    const numbered = /^#?\d{1,12}$/.test(text) ? Number(text.replace("#", "")) : -1;
    const items = found.map(({ row, id, name }) => ({
      act: () => onRow(row),
      body: emphasise(name || `Row ${row}`, text),
      note: id === undefined || id === name ? `#${row}` : `${id.slice(0, 24)} · #${row}`,
    }));
    if (numbered >= 0 && numbered < rows && !found.some(({ row }) => row === numbered)) items.push({ act: () => onRow(numbered), body: [`Row ${numbered}`], note: `#${numbered}` });
    const lines = items.map(({ body, note }) => [make("span", { dir: "auto" }, ...body), make("small", {}, note)]);
    choices = items.map(({ act }) => act);
    if (onText) {
      lines.unshift([make("span", {}, `Search by meaning: “${text}”`)]);
      choices.unshift(() => onText(text));
    }
    list.replaceChildren(
      ...lines.map((children, i) =>
        make(
          "li",
          {
            id: `suggestion-${i}`,
            role: "option",
            className: onText && i === 0 ? "meaning" : "",
            "aria-selected": "false",
            onpointerdown: (/** @type {Event} */ e) => e.preventDefault(),
            onclick: () => choose(i),
          },
          ...children,
        ),
      ),
    );
    if (!lines.length) list.append(make("li", { className: "none", role: "option", "aria-selected": "false" }, "No name holds this"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    active = -1;
    if (choices.length) activate(0);
  };

  input.addEventListener("input", update);
  input.addEventListener("focus", () => {
    input.select();
    if (input.value.trim()) update();
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      if (list.hidden) update();
      else activate(active + (e.key === "ArrowDown" ? 1 : -1));
    } else if (e.key === "Enter" && !list.hidden) {
      e.preventDefault();
      choose(active);
    } else if (e.key === "Escape") {
      e.stopPropagation();
      if (!list.hidden) close();
      else input.blur();
    }
  });
}

/**
 * The name in pieces, what was typed marked.
 * @param {string} name
 * @param {string} text
 * @returns {Array<Node | string>}
 */
function emphasise(name, text) {
  // Folding may change lengths (ligatures, combined accents); then the name stays plain.
  const at = fold(name).length === name.length ? fold(name).indexOf(fold(text)) : -1;
  if (at < 0) return [name];
  return [name.slice(0, at), make("mark", {}, name.slice(at, at + text.length)), name.slice(at + text.length)];
}
