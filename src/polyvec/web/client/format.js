// The rules of `.i8bin` and the words in which a broken one is refused (polyvec's Python side says the same).

/** A level of the int8 codes is 1/127. */
export const SCALE = 127;
/** The norm bounds .992 and 1.008 as sums of squares of codes: ceil((.992*127)^2), floor((1.008*127)^2). */
export const SQUARES_LOW = 15872;
export const SQUARES_HIGH = 16388;

const REEXPORT = "Re-export embeddings using export_for_browser.py (python -m polyvec.browser)";

/**
 * Why embeddings were refused: `code` is "network", "size", "legacy", "range", "norm", "hash", "meta", "dtype" or
 * "count"; `row` says where, if somewhere.
 */
export class EmbeddingError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {number} [row]
   */
  constructor(code, message, row) {
    super(message);
    this.name = "EmbeddingError";
    this.code = code;
    this.row = row;
  }
}

/**
 * Float32 values of int8 codes: a true division, for a product with 1/127 differs in 16 codes.
 * Vectors are never re-normalised: the codes were chosen so that their length is one.
 * @param {Int8Array} int8Data
 * @returns {Float32Array}
 */
export function dequantize(int8Data) {
  const float32Data = new Float32Array(int8Data.length);
  for (let i = 0; i < int8Data.length; i++) float32Data[i] = int8Data[i] / SCALE;
  return float32Data;
}

/**
 * Throw unless a dequantised vector has a norm from .992 to 1.008.
 * @param {Float32Array} embedding
 * @returns {void}
 */
export function validateL2Norm(embedding) {
  let sum = 0;
  for (let i = 0; i < embedding.length; i++) sum += embedding[i] * embedding[i];
  const norm = Math.sqrt(sum);
  if (!(norm >= 0.992 && norm <= 1.008)) throw normError(norm);
}

/**
 * Throw unless `actual` bytes are what `shape` asks for; files of the old float16 format are named as such.
 * @param {readonly number[]} shape
 * @param {number} actual
 * @returns {void}
 */
export function checkSize(shape, actual) {
  const expected = shape[0] * shape[1];
  if (actual === expected) return;
  const message =
    `Embedding file size mismatch: expected ${expected} bytes ` +
    `(${shape[0]} cards × ${shape[1]} dims), got ${actual} bytes. ${REEXPORT}`;
  if (actual === 2 * expected) {
    throw new EmbeddingError(
      "legacy",
      `${message}. The file has the size of the old float16 format (v1.x), which is no longer supported.`,
    );
  }
  throw new EmbeddingError("size", message);
}

/**
 * Throw at the first row that holds -128 or whose norm is out of range. Exact: sums are integers.
 * @param {Int8Array} rows
 * @param {number} dim
 * @returns {void}
 */
export function checkRows(rows, dim) {
  const count = dim > 0 ? rows.length / dim : 0;
  for (let row = 0; row < count; row++) {
    let sum = 0;
    let least = 0;
    for (let i = row * dim, end = i + dim; i < end; i++) {
      const value = rows[i];
      sum += value * value;
      if (value < least) least = value;
    }
    if (least < -SCALE || sum < SQUARES_LOW || sum > SQUARES_HIGH) throw rowError(rows, dim, row);
  }
}

/**
 * The error of one bad row: a value out of range first, its norm otherwise.
 * @param {Int8Array} rows
 * @param {number} dim
 * @param {number} row
 * @returns {EmbeddingError}
 */
export function rowError(rows, dim, row) {
  let sum = 0;
  for (let i = row * dim; i < (row + 1) * dim; i++) {
    const value = rows[i];
    if (value < -SCALE) {
      return new EmbeddingError(
        "range",
        `Invalid int8 value at index ${i}: ${value}. Values must be in range [-127, 127].`,
        row,
      );
    }
    sum += value * value;
  }
  return normError(Math.sqrt(sum) / SCALE, row);
}

/**
 * @param {number} norm
 * @param {number} [row]
 * @returns {EmbeddingError}
 */
function normError(norm, row) {
  return new EmbeddingError(
    "norm",
    `L2 norm out of expected range: ${norm}. Expected approximately 1.0 (within ±0.008). ` +
      `Check quantization parameters.${row === undefined ? "" : ` Row ${row}.`}`,
    row,
  );
}

/**
 * @param {unknown} found
 * @returns {EmbeddingError}
 */
export function dtypeError(found) {
  return new EmbeddingError("dtype", `Unsupported quantization dtype: ${String(found)}. Expected int8. ${REEXPORT}`);
}

/**
 * @param {number} expected
 * @param {number} found
 * @returns {EmbeddingError}
 */
export function countError(expected, found) {
  return new EmbeddingError(
    "count",
    `Metadata count mismatch: expected ${expected} records, got ${found}. ${REEXPORT}`,
  );
}

/**
 * @param {string} expected
 * @param {string} found
 * @returns {EmbeddingError}
 */
export function hashError(expected, found) {
  return new EmbeddingError(
    "hash",
    `Embedding file hash mismatch: the manifest says ${expected}, the file has ${found}. ${REEXPORT}`,
  );
}
