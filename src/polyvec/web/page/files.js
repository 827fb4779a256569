// Where the page's data comes from: the site's data/ folder, or script elements of a single-file page.
import { request } from "../client/download.js";
import { EmbeddingError } from "../client/format.js";

/** Whether this page carries its data inside itself. */
export const embedded = () => document.querySelector("script[data-file]") !== null;

/**
 * The bytes of a data file.
 * @param {string} name
 * @returns {Promise<ArrayBuffer>}
 */
export async function readBytes(name) {
  if (!embedded()) return (await request(`data/${name}`)).arrayBuffer();
  const holder = document.querySelector(`script[data-file="${CSS.escape(name)}"]`);
  if (!holder) throw new EmbeddingError("network", `Failed to load embeddings: ${name} is not in this page`);
  const text = atob((holder.textContent ?? "").trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (holder.getAttribute("data-packed") !== "gzip") return bytes.buffer;
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).arrayBuffer();
}

/** @param {string} name */
export async function readText(name) {
  return new TextDecoder().decode(await readBytes(name));
}

/** @param {string} name @returns {Promise<any>} */
export async function readJson(name) {
  const text = await readText(name);
  try {
    return JSON.parse(text);
  } catch {
    throw new EmbeddingError("meta", `Failed to load embeddings: ${name} is not JSON`);
  }
}

/**
 * Ask the server behind the page, where there is one.
 * @param {string} what
 * @param {Record<string, string>} asked
 */
export async function ask(what, asked) {
  const response = await fetch(`api/${what}?${new URLSearchParams(asked)}`);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new EmbeddingError("network", answer.error ?? `the server answered ${response.status}`);
  return answer;
}
