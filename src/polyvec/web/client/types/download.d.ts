export type Progress = {
    loaded: number;
    total: number;
};
export type OnProgress = (progress: Progress) => void;
/**
 * Fetch a file of int8 rows. With `shape` the size, the range and every row's norm are checked as well.
 * @param {string} url
 * @param {{shape?: readonly number[], onProgress?: OnProgress, signal?: AbortSignal}} [options]
 * @returns {Promise<Int8Array>}
 */
export declare function loadEmbeddings(url: string, options?: {
    shape?: readonly number[];
    onProgress?: OnProgress;
    signal?: AbortSignal;
}): Promise<Int8Array>;
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
export declare function download(url: string, shape: readonly number[], allocate: () => Promise<Int8Array>, options: {
    hash?: string;
    onProgress?: OnProgress;
    signal?: AbortSignal;
    cache?: boolean;
}): Promise<{
    rows: Int8Array;
    cached: boolean;
}>;
/**
 * @param {string} url
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
export declare function request(url: string, signal?: AbortSignal): Promise<Response>;
/**
 * Fetch JSON; null where the file does not exist and `optional` is set.
 * @param {string} url
 * @param {{signal?: AbortSignal, optional?: boolean}} [options]
 * @returns {Promise<any>}
 */
export declare function loadJson(url: string, options?: {
    signal?: AbortSignal;
    optional?: boolean;
}): Promise<any>;
