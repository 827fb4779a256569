// `loadIndex` and the index it gives: the page's side of the Worker.
import { loadJson } from "./download.js";
import { Engine } from "./engine.js";
import { EmbeddingError, countError, dtypeError } from "./format.js";

/**
 * @typedef {import("./engine.js").Hit} Hit
 * @typedef {import("./download.js").OnProgress} OnProgress
 * @typedef {(rows: number[]) => Float32Array[] | Promise<Float32Array[]>} FloatRows
 *
 * @typedef {object} SearchOptions
 * @property {Uint8Array} [allowed]              one byte a row; 0 leaves the row out
 * @property {Float32Array | FloatRows} [floats] exact rows (all of them, or a function that gives some): the best
 *                                               candidates are compared again in float
 * @property {number} [candidates]               how many are compared again; 100 unless told
 * @property {boolean} [cosine]                  rank by the cosine of the codes, whose lengths rounding has changed a little
 *
 * @typedef {object} LoadOptions
 * @property {readonly number[]} [shape]     [rows, dim]; read from the manifest or meta.json unless given
 * @property {string} [hash]                 SHA-256 of the file, the key of the cache
 * @property {OnProgress} [onProgress]
 * @property {ArrayBuffer} [data]            rows the page already has; nothing is fetched
 * @property {string | ArrayBuffer | null} [wasm]  the kernel; null keeps to plain JavaScript
 * @property {(() => Worker) | null} [worker]      makes the Worker; null works in place
 * @property {boolean | "later"} [records]   read meta.json too (the default), not at all, or while one searches
 * @property {boolean} [cache]               false leaves the browser's cache alone
 *
 * @typedef {{shape: readonly number[], records: Array<Record<string, unknown>>}} Meta
 */

/**
 * Load an export: `url` is its folder or its `.i8bin` file. Resolves when every row has been checked.
 * @param {string} url
 * @param {LoadOptions} [options]
 * @returns {Promise<VectorIndex>}
 */
export async function loadIndex(url, options = {}) {
  const file = url.endsWith(".i8bin") ? url : `${url.replace(/\/?$/, "/")}embeddings.i8bin`;
  const folder = file.slice(0, file.lastIndexOf("/") + 1);
  let { shape, hash } = options;
  const wantsRecords = options.records ?? !options.shape;
  if (!shape || !hash) {
    const manifest = options.data || shape ? null : await loadJson(`${folder}build_manifest.json`, { optional: true });
    hash = hash ?? readHash(manifest);
    shape = shape ?? readShape(manifest);
  }
  /** @type {Promise<Meta> | undefined} */
  let meta = wantsRecords || !shape ? loadJson(`${folder}meta.json`).then((found) => checkMeta(found, shape)) : undefined;
  meta?.catch(() => {}); // Awaited below or by the caller; not an unhandled rejection meanwhile.
  if (!shape) shape = (await /** @type {Promise<Meta>} */ (meta)).shape;
  checkShape(shape);

  const peer = await connect(options.worker);
  const wasm = options.wasm === null ? undefined : (options.wasm ?? new URL("./kernel.wasm", import.meta.url).href);
  const absolute = globalThis.location ? new URL(file, globalThis.location.href).href : file;
  try {
    const loaded = await peer.call(
      "load",
      [{ url: absolute, shape, hash, wasm, data: options.data, cache: options.cache }],
      options.onProgress,
    );
    if (wantsRecords === true) await meta;
    return new VectorIndex(peer, shape, loaded, wantsRecords ? meta : undefined);
  } catch (error) {
    peer.close();
    throw error;
  }
}

/** Int8 rows, held by a Worker, to be searched by dot product. */
export class VectorIndex {
  /**
   * @param {Peer} peer
   * @param {readonly number[]} shape
   * @param {import("./engine.js").Loaded} loaded
   * @param {Promise<Meta>} [meta]
   */
  constructor(peer, shape, loaded, meta) {
    this.peer = peer;
    this.rows = shape[0];
    this.dim = shape[1];
    /** "wasm" or "plain" */
    this.kernel = loaded.kind;
    /** Whether the rows came from the browser's cache. */
    this.cached = loaded.cached;
    /** How long the checks of every row took. */
    this.checkMs = loaded.checkMs;
    this.meta = meta;
  }

  /**
   * The k nearest rows to a vector (or to row number `query`, itself included), best first.
   * Scores are dot products of the vectors as they are, never re-normalised, unless cosines are asked for.
   * @param {number | Int8Array | Float32Array} query
   * @param {number} [k]
   * @param {SearchOptions} [options]
   * @returns {Promise<Hit[]>}
   */
  async search(query, k = 10, options = {}) {
    const { floats, allowed, cosine } = options;
    const wanted = floats ? Math.max(k, options.candidates ?? 100) : k;
    const hits = await this.peer.call("search", [query, wanted, allowed, cosine]);
    if (!floats) return hits;
    const exact = query instanceof Float32Array ? query : await this.exactQuery(query, floats);
    const rows = hits.map((/** @type {Hit} */ hit) => hit.row);
    const vectors = await floatRows(floats, rows, this.dim);
    return rows
      .map((/** @type {number} */ row, /** @type {number} */ i) => ({ row, score: dot(exact, vectors[i]) }))
      .sort((/** @type {Hit} */ a, /** @type {Hit} */ b) => b.score - a.score || a.row - b.row)
      .slice(0, k);
  }

  /**
   * Row `i` as float32.
   * @param {number} i
   * @returns {Promise<Float32Array>}
   */
  vector(i) {
    return this.peer.call("vector", [i]);
  }

  /**
   * The records of meta.json, one a row.
   * @returns {Promise<Array<Record<string, unknown>>>}
   */
  async records() {
    return this.meta ? (await this.meta).records : [];
  }

  /** Let the Worker and its memory go. */
  close() {
    this.peer.close();
  }

  /**
   * @param {number | Int8Array} query
   * @param {Float32Array | FloatRows} floats
   */
  async exactQuery(query, floats) {
    if (typeof query === "number") return (await floatRows(floats, [query], this.dim))[0];
    return Float32Array.from(query, (code) => code / 127);
  }
}

/**
 * Throw unless `meta` is a meta.json of this format, for `shape` where that is known.
 * @param {any} meta
 * @param {readonly number[]} [shape]
 * @returns {Meta}
 */
export function checkMeta(meta, shape) {
  const dtype = meta?.quantization?.dtype;
  if (dtype !== "int8") throw dtypeError(dtype);
  if (meta.quantization.scale_factor !== 127) {
    throw new EmbeddingError("meta", `Unsupported scale_factor: ${meta.quantization.scale_factor}. Expected 127.`);
  }
  checkShape(meta.shape);
  if (!Array.isArray(meta.records)) throw countError(meta.shape[0], 0);
  if (meta.records.length !== meta.shape[0]) throw countError(meta.shape[0], meta.records.length);
  if (shape && (shape[0] !== meta.shape[0] || shape[1] !== meta.shape[1])) throw countError(shape[0], meta.shape[0]);
  return meta;
}

/** @param {unknown} shape */
function checkShape(shape) {
  const ok = Array.isArray(shape) && shape.length === 2 && shape.every((n) => Number.isSafeInteger(n) && n >= 0);
  if (!ok || shape[1] < 1) throw new EmbeddingError("meta", `expected a shape [rows, dim], found ${JSON.stringify(shape)}`);
}

/** @param {any} manifest @returns {string | undefined} */
function readHash(manifest) {
  return typeof manifest?.file_hash === "string" ? manifest.file_hash.replace(/^sha256:/, "") : undefined;
}

/** @param {any} manifest @returns {readonly number[] | undefined} */
function readShape(manifest) {
  const { rows, dim } = manifest?.statistics ?? {};
  return Number.isSafeInteger(rows) && Number.isSafeInteger(dim) ? [rows, dim] : undefined;
}

/**
 * @param {Float32Array | FloatRows} floats
 * @param {number[]} rows
 * @param {number} dim
 */
function floatRows(floats, rows, dim) {
  return typeof floats === "function" ? floats(rows) : rows.map((row) => floats.subarray(row * dim, (row + 1) * dim));
}

/** @param {Float32Array} a @param {Float32Array} b */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/**
 * Whoever answers: a Worker, or an Engine in place.
 * @typedef {object} Peer
 * @property {(op: string, args: unknown[], onProgress?: OnProgress) => Promise<any>} call
 * @property {() => void} close
 */

/**
 * @param {(() => Worker) | null} [make]
 * @returns {Promise<Peer>}
 */
async function connect(make) {
  if (make === null || typeof Worker === "undefined") return inPlace();
  return overMessages(
    make ? make() : new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "polyvec" }),
  );
}

/** @returns {Peer} */
function inPlace() {
  /** @type {any} */
  const engine = new Engine();
  return {
    call: async (op, args, onProgress) => (op === "load" ? engine.load(args[0], onProgress) : engine[op](...args)),
    close: () => {},
  };
}

/**
 * @param {Worker} worker
 * @returns {Peer}
 */
function overMessages(worker) {
  /** @type {Map<number, {resolve: Function, reject: Function, onProgress?: OnProgress}>} */
  const waiting = new Map();
  let next = 0;
  worker.onmessage = ({ data }) => {
    const call = waiting.get(data.id);
    if (!call) return;
    if (data.progress) return call.onProgress?.(data.progress);
    waiting.delete(data.id);
    if (!data.error) return call.resolve(data.value);
    const { name, message, code, row } = data.error;
    call.reject(name === "EmbeddingError" ? new EmbeddingError(code, message, row) : new RangeError(message));
  };
  worker.onerror = (event) => {
    const message = `the search worker failed: ${event.message || "its script could not be loaded"}`;
    for (const call of waiting.values()) call.reject(new EmbeddingError("network", message));
    waiting.clear();
  };
  return {
    call: (op, args, onProgress) =>
      new Promise((resolve, reject) => {
        const id = next++;
        waiting.set(id, { resolve, reject, onProgress });
        worker.postMessage({ id, op, args });
      }),
    close: () => worker.terminate(),
  };
}
