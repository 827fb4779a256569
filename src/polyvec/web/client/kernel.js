// The two ways to walk over int8 rows: WASM SIMD, and plain JavaScript where that is missing.
import { SQUARES_HIGH, SQUARES_LOW, SCALE } from "./format.js";

/**
 * @typedef {object} Kernel
 * @property {"wasm" | "plain"} kind
 * @property {Int8Array} rows   count x dim codes, to be filled by the caller
 * @property {Int16Array} query dim values, to be filled before `dots`
 * @property {() => Int32Array} dots   the dot product of every row with the query
 * @property {() => number} firstBadRow   the first row that breaks the rules, -1 where none does
 */

const PAGE = 65536;

/**
 * A kernel with room for `count` rows of `dim` codes.
 * @param {number} count
 * @param {number} dim
 * @param {BufferSource | undefined} wasm the bytes of kernel.wasm; without them the plain kernel is made
 * @returns {Promise<Kernel>}
 */
export async function makeKernel(count, dim, wasm) {
  if (wasm && typeof WebAssembly === "object") {
    try {
      return await makeWasmKernel(count, dim, wasm);
    } catch {
      // No SIMD, a policy without wasm, or too little memory: the plain kernel gives the same answers.
    }
  }
  return makePlainKernel(count, dim);
}

/**
 * @param {number} count
 * @param {number} dim
 * @param {BufferSource} wasm
 * @returns {Promise<Kernel>}
 */
async function makeWasmKernel(count, dim, wasm) {
  const queryAt = (count * dim + 15) & ~15;
  const outAt = (queryAt + 2 * dim + 15) & ~15;
  const pages = Math.ceil((outAt + 4 * count) / PAGE) || 1;
  if (outAt + 4 * count >= 2 ** 31) throw new RangeError("more rows than 32-bit addresses");
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
  const { instance } = await WebAssembly.instantiate(wasm, { env: { memory } });
  const exports = /** @type {{dots: Function, check: Function}} */ (/** @type {unknown} */ (instance.exports));
  const out = new Int32Array(memory.buffer, outAt, count);
  return {
    kind: "wasm",
    rows: new Int8Array(memory.buffer, 0, count * dim),
    query: new Int16Array(memory.buffer, queryAt, dim),
    dots() {
      exports.dots(0, queryAt, count, dim, outAt);
      return out;
    },
    firstBadRow: () => exports.check(0, count, dim, SQUARES_LOW, SQUARES_HIGH),
  };
}

/**
 * @param {number} count
 * @param {number} dim
 * @returns {Kernel}
 */
function makePlainKernel(count, dim) {
  const rows = new Int8Array(count * dim);
  const query = new Int16Array(dim);
  const out = new Int32Array(count);
  return {
    kind: "plain",
    rows,
    query,
    dots() {
      for (let row = 0, at = 0; row < count; row++) {
        let sum = 0;
        for (let j = 0; j < dim; j++, at++) sum = (sum + Math.imul(rows[at], query[j])) | 0;
        out[row] = sum;
      }
      return out;
    },
    firstBadRow() {
      for (let row = 0, at = 0; row < count; row++) {
        let sum = 0;
        let least = 0;
        for (const end = at + dim; at < end; at++) {
          const value = rows[at];
          sum += value * value;
          if (value < least) least = value;
        }
        if (least < -SCALE || sum < SQUARES_LOW || sum > SQUARES_HIGH) return row;
      }
      return -1;
    },
  };
}

/**
 * The k best of `scores`, best first, ties to the lower row; rows whose `allowed` byte is 0 are left out.
 * @param {Int32Array | number[]} scores
 * @param {number} k
 * @param {Uint8Array} [allowed]
 * @returns {Uint32Array}
 */
export function selectBest(scores, k, allowed) {
  const size = Math.max(0, Math.min(k, scores.length));
  const heap = new Uint32Array(size);
  let held = 0;
  /** @param {number} a @param {number} b  whether row a is a worse answer than row b */
  const worse = (a, b) => scores[a] < scores[b] || (scores[a] === scores[b] && a > b);
  /** @param {number} at @param {number} row */
  const sink = (at, row) => {
    for (;;) {
      let child = 2 * at + 1;
      if (child >= held) break;
      if (child + 1 < held && worse(heap[child + 1], heap[child])) child++;
      if (!worse(heap[child], row)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = row;
  };
  let floor = -Infinity;
  for (let row = 0; row < scores.length; row++) {
    if (held === size && !(scores[row] > floor)) continue;
    if (allowed && !allowed[row]) continue;
    if (held < size) {
      let at = held++;
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if (!worse(row, heap[parent])) break;
        heap[at] = heap[parent];
        at = parent;
      }
      heap[at] = row;
    } else {
      sink(0, row);
    }
    if (held === size) floor = size ? scores[heap[0]] : Infinity;
  }
  return heap.slice(0, held).sort((a, b) => (worse(a, b) ? 1 : -1));
}
