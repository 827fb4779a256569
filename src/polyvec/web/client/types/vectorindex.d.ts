export type Hit = import("./engine.js").Hit;
export type OnProgress = import("./download.js").OnProgress;
export type FloatRows = (rows: number[]) => Float32Array[] | Promise<Float32Array[]>;
export type SearchOptions = {
    /**
     * one byte a row; 0 leaves the row out
     */
    allowed?: Uint8Array;
    /**
     * exact rows (all of them, or a function that gives some): the best
     *  candidates are compared again in float
     */
    floats?: Float32Array | FloatRows;
    /**
     * how many are compared again; 100 unless told
     */
    candidates?: number;
    /**
     * rank by the cosine of the codes, whose lengths rounding has changed a little
     */
    cosine?: boolean;
};
export type LoadOptions = {
    /**
     * [rows, dim]; read from the manifest or meta.json unless given
     */
    shape?: readonly number[];
    /**
     * SHA-256 of the file, the key of the cache
     */
    hash?: string;
    onProgress?: OnProgress;
    /**
     * rows the page already has; nothing is fetched
     */
    data?: ArrayBuffer;
    /**
     * the kernel; null keeps to plain JavaScript
     */
    wasm?: string | ArrayBuffer | null;
    /**
     * makes the Worker; null works in place
     */
    worker?: (() => Worker) | null;
    /**
     * read meta.json too (the default), not at all, or while one searches
     */
    records?: boolean | "later";
    /**
     * false leaves the browser's cache alone
     */
    cache?: boolean;
};
export type Meta = {
    shape: readonly number[];
    records: Array<Record<string, unknown>>;
};
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
export declare function loadIndex(url: string, options?: LoadOptions): Promise<VectorIndex>;
/** Int8 rows, held by a Worker, to be searched by dot product. */
export declare class VectorIndex {
    peer: Peer;
    rows: number;
    dim: number;
    /** "wasm" or "plain" */
    kernel: "plain" | "wasm";
    /** Whether the rows came from the browser's cache. */
    cached: boolean;
    /** How long the checks of every row took. */
    checkMs: number;
    meta: Promise<Meta> | undefined;
    /**
     * @param {Peer} peer
     * @param {readonly number[]} shape
     * @param {import("./engine.js").Loaded} loaded
     * @param {Promise<Meta>} [meta]
     */
    constructor(peer: Peer, shape: readonly number[], loaded: import("./engine.js").Loaded, meta?: Promise<Meta>);
    /**
     * The k nearest rows to a vector (or to row number `query`, itself included), best first.
     * Scores are dot products of the vectors as they are, never re-normalised, unless cosines are asked for.
     * @param {number | Int8Array | Float32Array} query
     * @param {number} [k]
     * @param {SearchOptions} [options]
     * @returns {Promise<Hit[]>}
     */
    search(query: number | Int8Array | Float32Array, k?: number, options?: SearchOptions): Promise<Hit[]>;
    /**
     * Row `i` as float32.
     * @param {number} i
     * @returns {Promise<Float32Array>}
     */
    vector(i: number): Promise<Float32Array>;
    /**
     * The records of meta.json, one a row.
     * @returns {Promise<Array<Record<string, unknown>>>}
     */
    records(): Promise<Array<Record<string, unknown>>>;
    /** Let the Worker and its memory go. */
    close(): void;
    /**
     * @param {number | Int8Array} query
     * @param {Float32Array | FloatRows} floats
     */
    exactQuery(query: number | Int8Array, floats: Float32Array | FloatRows): Promise<Float32Array<ArrayBufferLike>>;
}
/**
 * Throw unless `meta` is a meta.json of this format, for `shape` where that is known.
 * @param {any} meta
 * @param {readonly number[]} [shape]
 * @returns {Meta}
 */
export declare function checkMeta(meta: any, shape?: readonly number[]): Meta;
export type Peer = {
    call: (op: string, args: unknown[], onProgress?: OnProgress) => Promise<any>;
    close: () => void;
};
