/** A level of the int8 codes is 1/127. */
export declare const SCALE = 127;
/** The norm bounds .992 and 1.008 as sums of squares of codes: ceil((.992*127)^2), floor((1.008*127)^2). */
export declare const SQUARES_LOW = 15872;
export declare const SQUARES_HIGH = 16388;
/**
 * Why embeddings were refused: `code` is "network", "size", "legacy", "range", "norm", "hash", "meta", "dtype" or
 * "count"; `row` says where, if somewhere.
 */
export declare class EmbeddingError extends Error {
    code: string;
    row: number | undefined;
    /**
     * @param {string} code
     * @param {string} message
     * @param {number} [row]
     */
    constructor(code: string, message: string, row?: number);
}
/**
 * Float32 values of int8 codes: a true division, for a product with 1/127 differs in 16 codes.
 * Vectors are never re-normalised: the codes were chosen so that their length is one.
 * @param {Int8Array} int8Data
 * @returns {Float32Array}
 */
export declare function dequantize(int8Data: Int8Array): Float32Array;
/**
 * Throw unless a dequantised vector has a norm from .992 to 1.008.
 * @param {Float32Array} embedding
 * @returns {void}
 */
export declare function validateL2Norm(embedding: Float32Array): void;
/**
 * Throw unless `actual` bytes are what `shape` asks for; files of the old float16 format are named as such.
 * @param {readonly number[]} shape
 * @param {number} actual
 * @returns {void}
 */
export declare function checkSize(shape: readonly number[], actual: number): void;
/**
 * Throw at the first row that holds -128 or whose norm is out of range. Exact: sums are integers.
 * @param {Int8Array} rows
 * @param {number} dim
 * @returns {void}
 */
export declare function checkRows(rows: Int8Array, dim: number): void;
/**
 * The error of one bad row: a value out of range first, its norm otherwise.
 * @param {Int8Array} rows
 * @param {number} dim
 * @param {number} row
 * @returns {EmbeddingError}
 */
export declare function rowError(rows: Int8Array, dim: number, row: number): EmbeddingError;
/**
 * @param {unknown} found
 * @returns {EmbeddingError}
 */
export declare function dtypeError(found: unknown): EmbeddingError;
/**
 * @param {number} expected
 * @param {number} found
 * @returns {EmbeddingError}
 */
export declare function countError(expected: number, found: number): EmbeddingError;
/**
 * @param {string} expected
 * @param {string} found
 * @returns {EmbeddingError}
 */
export declare function hashError(expected: string, found: string): EmbeddingError;
