// One loaded file and its kernel: what runs inside the Worker (or in place, where there is no Worker).
import { download, request } from "./download.js";
import { EmbeddingError, checkSize, dequantize, rowError, SCALE } from "./format.js";
import { makeKernel, selectBest } from "./kernel.js";

/**
 * @typedef {object} Load
 * @property {string} url
 * @property {readonly number[]} shape
 * @property {string} [hash]
 * @property {string | ArrayBuffer} [wasm]   where kernel.wasm lies, or its bytes; absent: plain JavaScript
 * @property {ArrayBuffer} [data]            the rows themselves, where the page already has them
 * @property {boolean} [cache]
 * @typedef {{row: number, score: number}} Hit
 * @typedef {{kind: "wasm" | "plain", cached: boolean, checkMs: number}} Loaded
 */

const INT16 = 32767;
const NEAR = 0.98; // below .992 / 1.008: how much shorter than another a row may be that keeps the format's rules

export class Engine {
  constructor() {
    /** @type {import("./kernel.js").Kernel | undefined} */
    this.kernel = undefined;
    this.count = 0;
    this.dim = 0;
  }

  /**
   * Fetch, check and keep the rows. Nothing is kept of a file that breaks a rule.
   * @param {Load} load
   * @param {import("./download.js").OnProgress} [onProgress]
   * @returns {Promise<Loaded>}
   */
  async load(load, onProgress) {
    const [count, dim] = load.shape;
    const wasm = await fetchKernel(load.wasm);
    /** @type {import("./kernel.js").Kernel | undefined} */
    let made;
    const allocate = async () => {
      made ??= await makeKernel(count, dim, wasm);
      return made.rows;
    };
    let cached = false;
    if (load.data) {
      checkSize(load.shape, load.data.byteLength);
      (await allocate()).set(new Int8Array(load.data));
    } else {
      const { hash, cache } = load;
      ({ cached } = await download(load.url, load.shape, allocate, { hash, cache, onProgress }));
    }
    const kernel = /** @type {import("./kernel.js").Kernel} */ (/** @type {unknown} */ (made));
    const start = performance.now();
    const bad = kernel.firstBadRow();
    if (bad >= 0) throw rowError(kernel.rows, dim, bad);
    this.kernel = kernel;
    this.count = count;
    this.dim = dim;
    return { kind: kernel.kind, cached, checkMs: performance.now() - start };
  }

  /**
   * The k rows with the largest dot product. An int8 query (or a row number) is compared in integers throughout; a
   * float query is rounded to int16, which loses no neighbour that matters. With `cosine` rows are ranked by the cosine
   * of their codes instead: rounding changes lengths a little, and a row's own copy is still the nearest.
   * @param {number | Int8Array | Float32Array} query
   * @param {number} k
   * @param {Uint8Array} [allowed]
   * @param {boolean} [cosine]
   * @returns {Hit[]}
   */
  search(query, k, allowed, cosine = false) {
    const { kernel, dim } = this.ready();
    if (allowed && allowed.length !== this.count) {
      throw new RangeError(`expected a filter of ${this.count} bytes, found ${allowed.length}`);
    }
    let unit;
    if (typeof query === "number") {
      kernel.query.set(this.row(query));
      unit = SCALE * SCALE;
    } else {
      if (query.length !== dim) throw new RangeError(`expected a query of ${dim} values, found ${query.length}`);
      unit = query instanceof Int8Array ? this.takeCodes(query) : this.takeFloats(query);
    }
    const scores = kernel.dots();
    const best = selectBest(scores, k, allowed);
    if (cosine) return this.byCosine(scores, best, allowed);
    return Array.from(best, (row) => ({ row, score: scores[row] / unit }));
  }

  /**
   * As many rows as `best` holds, by cosine: only those can be among them whose dot product is near the least of these.
   * @param {Int32Array} scores
   * @param {Uint32Array} best
   * @param {Uint8Array} [allowed]
   * @returns {Hit[]}
   */
  byCosine(scores, best, allowed) {
    const { kernel } = this.ready();
    const least = best.length ? scores[best[best.length - 1]] : Infinity;
    const floor = least > 0 ? least * NEAR : least / NEAR;
    const query = squareOf(kernel.query);
    /** @type {number[]} */
    const rows = [];
    /** @type {number[]} */
    const cosines = [];
    for (let row = 0; row < this.count; row++) {
      if (!(scores[row] >= floor) || (allowed && !allowed[row])) continue;
      rows.push(row);
      cosines.push(scores[row] / Math.sqrt(query * squareOf(this.row(row))));
    }
    return Array.from(selectBest(cosines, best.length), (at) => ({ row: rows[at], score: cosines[at] }));
  }

  /** @param {number} i @returns {Float32Array} */
  vector(i) {
    return dequantize(this.row(i));
  }

  /** @param {Int8Array} query */
  takeCodes(query) {
    this.ready().kernel.query.set(query);
    return SCALE * SCALE;
  }

  /** @param {Float32Array} query */
  takeFloats(query) {
    const target = this.ready().kernel.query;
    let largest = 0;
    for (const value of query) largest = Math.max(largest, Math.abs(value));
    if (!(largest > 0 && largest < Infinity)) {
      throw new RangeError("expected a query with finite values, not all zero");
    }
    const scale = INT16 / largest;
    for (let j = 0; j < query.length; j++) target[j] = Math.round(query[j] * scale);
    return scale * SCALE;
  }

  /** @param {number} i @returns {Int8Array} */
  row(i) {
    const { kernel, dim, count } = this.ready();
    if (!Number.isInteger(i) || i < 0 || i >= count) throw new RangeError(`row ${i} is not one of 0 to ${count - 1}`);
    return kernel.rows.subarray(i * dim, (i + 1) * dim);
  }

  ready() {
    if (!this.kernel) throw new EmbeddingError("meta", "no embeddings are loaded");
    return { kernel: this.kernel, dim: this.dim, count: this.count };
  }
}

/** @param {Int8Array | Int16Array} codes */
function squareOf(codes) {
  let sum = 0;
  for (let i = 0; i < codes.length; i++) sum += codes[i] * codes[i];
  return sum;
}

/**
 * @param {string | ArrayBuffer | undefined} wasm
 * @returns {Promise<ArrayBuffer | undefined>}
 */
async function fetchKernel(wasm) {
  if (typeof wasm !== "string") return wasm;
  try {
    return await (await request(wasm)).arrayBuffer();
  } catch {
    return undefined; // A missing kernel costs speed, not answers.
  }
}
