// Making elements. Text is only ever set as text: nothing from a record is parsed as HTML.

/** Characters of a value that are shown. */
const MOST_TEXT = 2000;

/**
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * @param {string} tag
 * @param {Record<string, any>} [given] properties; names with a dash are attributes, `onx` are listeners
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {any}
 */
export function make(tag, given = {}, ...children) {
  /** @type {any} */
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") element.setAttribute(key, String(value));
    else element[key] = value;
  }
  fillIn(element, ...children);
  return element;
}

/**
 * Put children into an element, in place of what it has; those that are nothing are left out, not written as "null".
 * @param {Element} element
 * @param {...(Node | string | null | undefined | false)} children
 */
export function fillIn(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

/**
 * An address that is safe to link to or load: http or https, else undefined (so never javascript:).
 * @param {unknown} address
 * @returns {string | undefined}
 */
export function safeAddress(address) {
  if (typeof address !== "string" || !/^https?:\/\//i.test(address.trim())) return undefined;
  try {
    return new URL(address).href;
  } catch {
    return undefined;
  }
}

/**
 * A value of a record as text.
 * @param {unknown} value
 * @returns {string}
 */
export function asText(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(asText).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/**
 * A count or a measure, shortened: thousands apart, four digits of a fraction. Nothing for what is no number.
 * @param {number} value
 */
export function asNumber(value) {
  if (Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) return String(Number(value.toPrecision(4)));
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumSignificantDigits: size < 1000 ? 4 : 6 });
}

/**
 * A number as its field writes numbers: years and ids are not counted in thousands.
 * @param {{plain?: boolean}} field
 * @param {number} value
 */
export function asFieldNumber(field, value) {
  return field.plain && Number.isInteger(value) ? String(value) : asNumber(value);
}

/**
 * The end of a range in a few digits, never inside it: all of the field lies between its ends as they are written.
 * @param {number} value
 * @param {boolean} upper
 */
export function asEnd(value, upper) {
  if (Number.isInteger(value)) return String(value);
  const near = Number(value.toPrecision(6));
  if (upper ? near >= value : near <= value) return String(near);
  const step = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 5);
  const next = Number((value + (upper ? step : -step)).toPrecision(6));
  return String((upper ? next >= value : next <= value) ? next : value);
}

/**
 * A value of a record as the list of its fields shows it: a number with all its digits but those of rounding.
 * @param {unknown} value
 */
export function asFact(value) {
  const text = typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(12))) : asText(value);
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
}
