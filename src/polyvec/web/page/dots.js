// Dots blended into pixels directly: a canvas call for each would be too slow for 50,000 of them.
import { channels } from "./colors.js";

/**
 * @typedef {object} Pixels
 * @property {Uint32Array} pixels
 * @property {number} width    of a line
 * @property {number} height
 * @typedef {object} Dots
 * @property {Uint16Array} points   x, y pairs
 * @property {number} count
 * @property {Uint8Array} codes     which of the colours, one a point
 * @property {number[]} colors      packed
 * @property {Uint8Array | undefined} allowed   one byte a point; the others are faint
 * @property {number} faint         their colour
 * @typedef {{radius: number, scale: number, shift: {x: number, y: number}}} Layout   of points in pixels
 */

/** A colour as pixels hold it. @param {string} hex */
export function pack(hex) {
  const [r, g, b] = channels(hex);
  return (b << 16) | (g << 8) | r;
}

/** @param {Pixels} target @param {Dots} dots @param {Layout} layout */
export function paintDots({ pixels, width, height }, { points, count, codes, colors, allowed, faint }, { radius, scale, shift }) {
  const disc = makeDisc(radius, width);
  const { reach } = disc;
  const { x: dx, y: dy } = shift;
  for (const pass of allowed ? [0, 1] : [1]) {
    const strength = pass ? 210 : 90;
    for (let i = 0; i < count; i++) {
      if (allowed && (allowed[i] ? 1 : 0) !== pass) continue;
      const x = points[2 * i] * scale + dx;
      const y = points[2 * i + 1] * scale + dy;
      // Dots that touch the rim are left out: half a dot is not worth a bounds check a pixel.
      if (!(x >= reach && y >= reach && x < width - reach - 1 && y < height - reach - 1)) continue;
      const ix = Math.floor(x);
      const iy = Math.floor(y);
      const { offsets, covers } = disc.places[(((y - iy) * 4) << 2) | ((x - ix) * 4)];
      const color = pass ? (colors[codes[i]] ?? colors[0]) : faint;
      const rb = color & 0xff00ff;
      const g = color & 0x00ff00;
      const base = iy * width + ix;
      for (let n = 0; n < offsets.length; n++) {
        const a = (covers[n] * strength) >> 8;
        const at = base + offsets[n];
        const under = pixels[at];
        const mixed = (Math.imul(under & 0xff00ff, 256 - a) + Math.imul(rb, a)) >>> 8;
        const green = (Math.imul(under & 0x00ff00, 256 - a) + Math.imul(g, a)) >>> 8;
        pixels[at] = 0xff000000 | (mixed & 0xff00ff) | (green & 0x00ff00);
      }
    }
  }
}

/**
 * A disc of `radius` pixels at each of 4 x 4 places within a pixel: the pixels it covers, as offsets, and how much.
 * @param {number} radius
 * @param {number} width pixels a line
 */
function makeDisc(radius, width) {
  const reach = Math.ceil(radius + 1);
  const places = [];
  for (let place = 0; place < 16; place++) {
    const offsets = [];
    const covers = [];
    for (let y = -reach; y <= reach; y++) {
      for (let x = -reach; x <= reach; x++) {
        const far = Math.hypot(x - (place & 3) / 4 + 0.5, y - (place >> 2) / 4 + 0.5);
        const cover = Math.round(255 * Math.min(1, Math.max(0, radius + 0.5 - far)));
        if (!cover) continue;
        offsets.push(y * width + x);
        covers.push(cover);
      }
    }
    places.push({ offsets: Int32Array.from(offsets), covers: Uint8Array.from(covers) });
  }
  return { reach, places };
}
