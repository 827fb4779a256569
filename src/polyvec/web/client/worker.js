// The Worker's side: one Engine, asked by message.
import { Engine } from "./engine.js";

/** @type {any} */
const scope = globalThis;
const engine = new Engine();

scope.onmessage = async (/** @type {MessageEvent} */ event) => {
  const { id, op, args } = event.data;
  try {
    let value;
    if (op === "load") {
      value = await engine.load(args[0], (progress) => scope.postMessage({ id, progress }));
    } else if (op === "search") {
      value = engine.search(args[0], args[1], args[2], args[3]);
    } else if (op === "vector") {
      value = engine.vector(args[0]);
    } else {
      throw new RangeError(`unknown operation ${op}`);
    }
    scope.postMessage({ id, value });
  } catch (error) {
    const { name, message, code, row } = /** @type {any} */ (error);
    scope.postMessage({ id, error: { name, message, code, row } });
  }
};
