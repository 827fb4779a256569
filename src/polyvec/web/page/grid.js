// A grid over points: what lies somewhere is found without walking over every point.

/** Points are pairs of whole numbers from 0 to this. */
export const UNIT = 65535;
const CELLS = 128;

export class PointGrid {
  /** Cells are runs of `order`. @param {Uint16Array} points x, y pairs */
  constructor(points) {
    const count = points.length / 2;
    const cellOf = (/** @type {number} */ i) => (points[2 * i + 1] >> 9) * CELLS + (points[2 * i] >> 9);
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    for (let i = 0; i < count; i++) this.starts[cellOf(i) + 1]++;
    for (let c = 0; c < CELLS * CELLS; c++) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice();
    this.order = new Uint32Array(count);
    for (let i = 0; i < count; i++) this.order[next[cellOf(i)]++] = i;
  }

  /**
   * The points of all cells that touch a box, in units of the map.
   * @param {number} left @param {number} top @param {number} right @param {number} bottom
   * @param {(point: number) => boolean} visit false stops
   */
  eachNear(left, top, right, bottom, visit) {
    const cell = (/** @type {number} */ v) => Math.min(CELLS - 1, Math.max(0, Math.floor(v * CELLS)));
    for (let cy = cell(top); cy <= cell(bottom); cy++) {
      for (let cx = cell(left); cx <= cell(right); cx++) {
        const c = cy * CELLS + cx;
        for (let i = this.starts[c]; i < this.starts[c + 1]; i++) if (!visit(this.order[i])) return;
      }
    }
  }
}
