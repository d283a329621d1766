// @ts-check
import { existsSync, readFileSync } from 'node:fs';
import { ModelFilesError } from './model-files.mjs';

export const INSTALL_CHAT = 'Run `npm ci --prefix examples/model-server/chat` in the root of the repository (about 410 MB).';
const START_CHAT = 'tart the server with `chat: true` or `serve.mjs --chat`.';

/**
 * Loads the model of `./chat`, which is installed by those who want it.
 *
 * @param {import('./types.d.mts').CheckedChatOptions} options
 * @returns {Promise<import('./types.d.mts').ChatRuntime>}
 */
export async function loadChatModel(options) {
  if (!isInstalled()) throw notInstalled();
  const { loadTinyLlama } = await import('./chat/tinyllama.mjs');
  return loadTinyLlama(options);
}

/** Why there is no chat, and what to do about it. */
export function whyNoChat() {
  return isInstalled() ? `model server: the chat model is not loaded. S${START_CHAT}` : notInstalled().message;
}

function notInstalled() {
  return new ModelFilesError(`the chat model is not installed. ${INSTALL_CHAT} Then s${START_CHAT}`);
}

function isInstalled() {
  const folder = new URL('./chat/', import.meta.url);
  const { dependencies } = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
  return Object.keys(dependencies).every((name) => existsSync(new URL(`node_modules/${name}/package.json`, folder)));
}
