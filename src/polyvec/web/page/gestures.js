// Pointers, wheel and keys over the map: drag, pinch, zoom, hover, pick.

/** @param {import("./map.js").ScatterMap} map */
export function listen(map) {
  const { canvas } = map;
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  let travelled = 0;
  const at = (/** @type {MouseEvent} */ e) => {
    const box = canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    down.set(e.pointerId, at(e));
    travelled = down.size > 1 ? Infinity : 0;
    cancelAnimationFrame(map.flight);
  });
  canvas.addEventListener("pointermove", (e) => {
    const now = at(e);
    const before = down.get(e.pointerId);
    if (!before) return map.hoverAt(now.x, now.y);
    const others = [...down].filter(([id]) => id !== e.pointerId).map(([, p]) => p);
    down.set(e.pointerId, now);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (travelled < 4) return;
    canvas.classList.add("dragging");
    map.hoverAt(-1, -1);
    if (others.length) {
      const was = Math.hypot(before.x - others[0].x, before.y - others[0].y);
      const is = Math.hypot(now.x - others[0].x, now.y - others[0].y);
      map.zoomAt((now.x + others[0].x) / 2, (now.y + others[0].y) / 2, is / (was || is || 1));
    }
    const share = map.scale() * (others.length ? 2 : 1);
    map.moveTo({ ...map.view, x: map.view.x - (now.x - before.x) / share, y: map.view.y - (now.y - before.y) / share }, true);
  });
  const up = (/** @type {PointerEvent} */ e) => {
    const was = down.delete(e.pointerId);
    canvas.classList.remove("dragging");
    if (!was || e.type !== "pointerup" || travelled >= 4) return;
    const { x, y } = at(e);
    const point = map.pick(x, y, e.pointerType === "touch" ? 24 : 14);
    if (point >= 0) map.events.onPick(point);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => map.hoverAt(-1, -1));
  canvas.addEventListener("dblclick", (e) => {
    const { x, y } = at(e);
    if (map.pick(x, y) < 0) map.zoomAt(x, y, 2);
  });
  canvas.addEventListener(
    "wheel",
    (e) => {
      e.preventDefault();
      const { x, y } = at(e);
      const lines = e.deltaMode === 1 ? 16 : 1;
      map.zoomAt(x, y, Math.exp(-Math.max(-120, Math.min(120, e.deltaY * lines)) * 0.004));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (e) => press(map, e));
}

/** @param {import("./map.js").ScatterMap} map @param {KeyboardEvent} e */
function press(map, e) {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const step = 60 / map.scale();
  const { view } = map;
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowLeft: () => map.moveTo({ ...view, x: view.x - step }, true),
    ArrowRight: () => map.moveTo({ ...view, x: view.x + step }, true),
    ArrowUp: () => map.moveTo({ ...view, y: view.y - step }, true),
    ArrowDown: () => map.moveTo({ ...view, y: view.y + step }, true),
    "+": () => map.zoomBy(1.5),
    "=": () => map.zoomBy(1.5),
    "-": () => map.zoomBy(1 / 1.5),
    0: () => map.fit(),
    Enter: () => {
      const point = map.pick(map.middle(), map.height / 2, Math.max(map.width, map.height) / 2);
      if (point >= 0) map.events.onPick(point);
    },
  };
  if (!keys[e.key]) return;
  e.preventDefault();
  e.stopPropagation();
  keys[e.key]();
}
