// @ts-check
import { parentPort, workerData } from 'node:worker_threads';

/**
 * One text at a time goes through the model, never a padded batch: the quantised layers take their scale from the whole input, so a
 * neighbour's tokens would change a text's vector. Alone and on one thread, equal texts give equal bytes on every worker.
 */
const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const { onnx, wasmDir } = /** @type {{ onnx: Uint8Array, wasmDir: string | undefined }} */ (workerData);

/** onnxruntime-node is not a dependency, so its name must not be one the type checker looks up. */
const nativeRuntime = 'onnxruntime-node';
const ort = await import(wasmDir === undefined ? nativeRuntime : `${wasmDir}ort.wasm.min.mjs`);
if (wasmDir !== undefined) {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = wasmDir;
}
// A copy, because onnxruntime-node does not take shared memory.
const session = await ort.InferenceSession.create(onnx.slice(), { intraOpNumThreads: 1, interOpNumThreads: 1 });

/** @typedef {{ tokenIds: Int32Array, crash: boolean }} Work */

port.on('message', async (/** @type {Work} */ { tokenIds, crash }) => {
  if (crash) process.exit(1);
  const length = tokenIds.length;
  const tensor = (/** @type {BigInt64Array} */ values) => new ort.Tensor('int64', values, [1, length]);
  const { last_hidden_state: hidden } = await session.run({
    input_ids: tensor(BigInt64Array.from(tokenIds, BigInt)),
    attention_mask: tensor(new BigInt64Array(length).fill(1n)),
    token_type_ids: tensor(new BigInt64Array(length)),
  });
  const vector = normalise(mean(hidden.data, length));
  port.postMessage({ vector }, [vector.buffer]);
});
port.postMessage({ ready: true });

/**
 * The mean over the attention mask. Nothing is padded, so the mask is all ones and every row counts.
 *
 * @param {Float32Array} rows
 * @param {number} count
 */
function mean(rows, count) {
  const width = rows.length / count;
  const sum = new Float64Array(width);
  for (let i = 0; i < rows.length; i++) sum[i % width] = /** @type {number} */ (sum[i % width]) + /** @type {number} */ (rows[i]);
  return sum.map((value) => value / count);
}

/** @param {Float64Array} vector */
function normalise(vector) {
  const length = Math.hypot(...vector);
  return Float32Array.from(vector, (value) => value / length);
}
