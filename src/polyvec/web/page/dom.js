// Making elements. Text is only ever set as text: nothing from a record is parsed as HTML.

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
  for (const child of children) if (child || child === "") element.append(child);
  return element;
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

/** @param {number} value */
export function asNumber(value) {
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(4)).toLocaleString("en");
}
