// Fetching with progress, straight into memory that exists already, cached by content hash.
import { EmbeddingError, checkRows, checkSize, hashError } from "./format.js";

/**
 * @typedef {{loaded: number, total: number}} Progress
 * @typedef {(progress: Progress) => void} OnProgress
 */

const CACHE = "polyvec-i8bin";

/**
 * Fetch a file of int8 rows. With `shape` the size, the range and every row's norm are checked as well.
 * @param {string} url
 * @param {{shape?: readonly number[], onProgress?: OnProgress, signal?: AbortSignal}} [options]
 * @returns {Promise<Int8Array>}
 */
export async function loadEmbeddings(url, options = {}) {
  const { shape, onProgress, signal } = options;
  if (shape) {
    const allocate = async () => new Int8Array(shape[0] * shape[1]);
    const { rows } = await download(url, shape, allocate, { onProgress, signal });
    checkRows(rows, shape[1]);
    return rows;
  }
  const response = await request(url, signal);
  const total = declaredSize(response);
  /** @type {Uint8Array[]} */
  const pieces = [];
  let loaded = 0;
  await eachPiece(response, (piece) => {
    pieces.push(piece);
    loaded += piece.length;
    onProgress?.({ loaded, total: Math.max(total, loaded) });
  });
  const bytes = new Int8Array(loaded);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/**
 * Fetch rows into memory that `allocate` gives once the announced size is known to be right; throw where the size or
 * the hash differs. Verified bytes are kept in the browser's cache under their hash, so that the next visit downloads
 * nothing and a new export is never mixed with an old one.
 * @param {string} url
 * @param {readonly number[]} shape
 * @param {() => Promise<Int8Array>} allocate
 * @param {{hash?: string, onProgress?: OnProgress, signal?: AbortSignal, cache?: boolean}} options
 * @returns {Promise<{rows: Int8Array, cached: boolean}>}
 */
export async function download(url, shape, allocate, options) {
  const size = shape[0] * shape[1];
  const { hash, onProgress, signal } = options;
  const store = hash && options.cache !== false ? await openCache() : undefined;
  const key = `${url.split("#")[0]}${url.includes("?") ? "&" : "?"}sha256=${hash}`;
  const kept = await store?.match(key).catch(() => undefined);
  if (kept) {
    const rows = await room(shape, allocate);
    if ((await fill(kept, rows, onProgress)) === size) return { rows, cached: true };
  }

  const response = await request(url, signal);
  const declared = declaredSize(response);
  if (declared && declared !== size) {
    await response.body?.cancel();
    checkSize(shape, declared);
  }
  const rows = await room(shape, allocate);
  checkSize(shape, await fill(response, rows, onProgress));
  if (hash) {
    const found = await sha256(rows);
    if (found && found !== hash.toLowerCase()) throw hashError(hash, found);
    if (store && found) void keep(store, key, rows);
  }
  return { rows, cached: false };
}

/**
 * @param {readonly number[]} shape
 * @param {() => Promise<Int8Array>} allocate
 */
async function room(shape, allocate) {
  try {
    return await allocate();
  } catch {
    throw new EmbeddingError("size", `${shape[0]} rows × ${shape[1]} dims do not fit this device's memory`);
  }
}

/**
 * Remember verified bytes and forget older exports of the same address; a full disk is no error.
 * @param {Cache} store
 * @param {string} key
 * @param {Int8Array} bytes
 */
async function keep(store, key, bytes) {
  try {
    const path = new URL(key, globalThis.location?.href).pathname;
    for (const old of await store.keys()) {
      if (new URL(old.url).pathname === path) await store.delete(old);
    }
    await store.put(key, new Response(new Blob([/** @type {BlobPart} */ (bytes)])));
  } catch {
    // Caching is a convenience: without room for it the next visit downloads again.
  }
}

/**
 * @param {string} url
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
export async function request(url, signal) {
  let response;
  try {
    response = await fetch(url, { signal });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new EmbeddingError("network", `Failed to load embeddings: ${url} could not be reached`);
  }
  if (!response.ok) {
    const status = `${response.status} ${response.statusText}`.trim();
    throw new EmbeddingError("network", `Failed to load embeddings: ${status}`);
  }
  return response;
}

/**
 * Fetch JSON; null where the file does not exist and `optional` is set.
 * @param {string} url
 * @param {{signal?: AbortSignal, optional?: boolean}} [options]
 * @returns {Promise<any>}
 */
export async function loadJson(url, options = {}) {
  let text;
  try {
    const response = await request(url, options.signal);
    text = await response.text();
  } catch (error) {
    if (options.optional && error instanceof EmbeddingError) return null;
    throw error;
  }
  try {
    return JSON.parse(text);
  } catch {
    if (options.optional) return null;
    throw new EmbeddingError("meta", `Failed to load embeddings: ${url} is not JSON`);
  }
}

/**
 * The bytes a response announces, 0 where it does not say or they are compressed on the way.
 * @param {Response} response
 */
function declaredSize(response) {
  if (response.headers.get("content-encoding")) return 0;
  const length = Number(response.headers.get("content-length"));
  return Number.isSafeInteger(length) && length > 0 ? length : 0;
}

/**
 * Copy a body into `into`, dropping what does not fit; the byte count of the whole body.
 * @param {Response} response
 * @param {Int8Array} into
 * @param {OnProgress} [onProgress]
 * @returns {Promise<number>}
 */
async function fill(response, into, onProgress) {
  let loaded = 0;
  await eachPiece(response, (piece) => {
    const room = into.length - loaded;
    if (room > 0) into.set(piece.length > room ? piece.subarray(0, room) : piece, loaded);
    loaded += piece.length;
    onProgress?.({ loaded, total: into.length });
  });
  return loaded;
}

/**
 * @param {Response} response
 * @param {(piece: Uint8Array) => void} visit
 */
async function eachPiece(response, visit) {
  if (!response.body) return visit(new Uint8Array(await response.arrayBuffer()));
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      visit(value);
    }
  } catch {
    throw new EmbeddingError("network", "Failed to load embeddings: the connection broke off");
  }
}

/** The browser's cache, where there is one: not on file: pages, nor on plain http from another machine. */
async function openCache() {
  try {
    return await globalThis.caches?.open(CACHE);
  } catch {
    return undefined;
  }
}

/**
 * Hex SHA-256 of bytes; undefined where the page may not use it (plain http from another machine).
 * @param {Int8Array} bytes
 * @returns {Promise<string | undefined>}
 */
async function sha256(bytes) {
  if (!globalThis.crypto?.subtle) return undefined;
  const digest = await crypto.subtle.digest("SHA-256", /** @type {BufferSource} */ (bytes));
  return Array.from(new Uint8Array(digest), (b) => b.toString(16).padStart(2, "0")).join("");
}
