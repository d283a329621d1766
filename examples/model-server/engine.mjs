// @ts-check
import { Worker } from 'node:worker_threads';
import { findWasmRuntime, loadModel } from './model-files.mjs';

const WORKER = new URL('./inference-worker.mjs', import.meta.url);

/**
 * The real model.
 *
 * @param {import('./types.d.mts').CheckedOptions} options
 * @returns {Promise<import('./types.d.mts').EmbeddingsEngine>}
 */
export async function loadEngine(options) {
  const { onnx, tokenizer } = await loadModel(options.modelDir);
  const { name, wasmDir } = await chooseRuntime(options);
  return {
    name,
    encode: (text) => tokenizer.encode(text).ids,
    startThread: () => new Worker(WORKER, { workerData: { onnx, wasmDir }, execArgv: [] }),
  };
}

/**
 * @param {import('./types.d.mts').CheckedOptions} options
 * @returns {Promise<{ name: string, wasmDir: string | undefined }>}
 */
async function chooseRuntime(options) {
  if (options.runtime !== 'wasm') {
    const nativeRuntime = 'onnxruntime-node';
    try {
      await import(nativeRuntime);
      return { name: nativeRuntime, wasmDir: undefined };
    } catch (error) {
      if (options.runtime === 'native') throw error;
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      // Not installed is the usual case; installed and broken is worth a word.
      if (code !== 'ERR_MODULE_NOT_FOUND') options.log({ type: 'nativeRuntimeUnavailable', reason: message });
    }
  }
  return { name: 'onnxruntime-web (wasm)', wasmDir: await findWasmRuntime(options.runtimeDir) };
}
