// @ts-check

/** @typedef {import('./types.d.mts').CheckedOptions} CheckedOptions */

const FAULT_DEFAULTS = {
  seed: 1,
  rate429: 0,
  rate5xx: 0,
  retryAfterMs: 200,
  slowRate: 0,
  slowMs: 1000,
  cutSockets: 0,
  cutEvery: 10,
  crashWorkers: 0,
  poisonSha256: /** @type {readonly string[]} */ ([]),
  blame: true,
};

const CHAT_DEFAULTS = {
  sequences: 2,
  /** Two threads wait for each other: on a machine that does other work too, they are slower than one. */
  maxThreads: 1,
  maxCompletionTokens: 512,
  maxQueuedChats: 100,
  runtime: /** @type {import('./types.d.mts').ChatRuntime | undefined} */ (undefined),
};

const DEFAULTS = {
  port: 0,
  apiKey: /** @type {string | undefined} */ (undefined),
  workers: 2,
  runtime: /** @type {'auto' | 'native' | 'wasm'} */ ('auto'),
  requestsPerMinute: Infinity,
  tokensPerMinute: Infinity,
  burstSeconds: 2,
  /** The model's table of positions has that many rows. */
  maxTokensPerInput: 512,
  maxInputs: 2048,
  maxTokensPerRequest: 300_000,
  maxBodyBytes: 4 * 1024 * 1024,
  maxQueuedTexts: 20_000,
  modelDir: /** @type {string | undefined} */ (undefined),
  runtimeDir: /** @type {string | undefined} */ (undefined),
  engine: /** @type {import('./types.d.mts').EmbeddingsEngine | undefined} */ (undefined),
  log: () => {},
};

/**
 * Fills in the defaults and refuses what is out of range.
 *
 * @param {import('./types.d.mts').ModelServerOptions} options
 * @returns {CheckedOptions}
 */
export function checkOptions(options) {
  const { faults, chat, ...rest } = object('options', options);
  const checked = {
    ...withDefaults('', DEFAULTS, rest),
    faults: withDefaults('faults.', FAULT_DEFAULTS, object('faults', faults ?? {})),
    chat: checkChat(chat),
  };

  number('port', checked.port, { whole: true, from: 0, to: 65_535 });
  number('workers', checked.workers, { whole: true, from: 1, to: 64 });
  number('requestsPerMinute', checked.requestsPerMinute, { from: Number.MIN_VALUE, to: Infinity });
  number('tokensPerMinute', checked.tokensPerMinute, { from: Number.MIN_VALUE, to: Infinity });
  number('burstSeconds', checked.burstSeconds, { from: 0, to: 60 });
  number('maxInputs', checked.maxInputs, { whole: true, from: 1, to: Infinity });
  number('maxTokensPerRequest', checked.maxTokensPerRequest, { whole: true, from: 1, to: Infinity });
  number('maxBodyBytes', checked.maxBodyBytes, { whole: true, from: 1, to: Infinity });
  number('maxQueuedTexts', checked.maxQueuedTexts, { whole: true, from: 1, to: Infinity });
  number('maxTokensPerInput', checked.maxTokensPerInput, { whole: true, from: 3, to: DEFAULTS.maxTokensPerInput });
  check('runtime', checked.runtime, ['auto', 'native', 'wasm'].includes(checked.runtime), "'auto', 'native' or 'wasm'");
  check('log', checked.log, typeof checked.log === 'function', 'a function');
  for (const name of /** @type {const} */ (['apiKey', 'modelDir', 'runtimeDir'])) {
    const value = checked[name];
    if (value === undefined || (typeof value === 'string' && value !== '')) continue;
    // The value stays out of the message: it may be a key.
    throw new TypeError(`startModelServer: expected \`${name}\` to be a text that is not empty, got a value of type ${typeof value}`);
  }

  const { faults: f } = checked;
  number('faults.seed', f.seed, { whole: true, from: 0, to: 0xffff_ffff });
  for (const name of /** @type {const} */ (['rate429', 'rate5xx', 'slowRate'])) number(`faults.${name}`, f[name], { from: 0, to: 1 });
  check('faults.rate5xx', f.rate5xx, f.rate429 + f.rate5xx <= 1, `at most ${1 - f.rate429}, because \`faults.rate429\` is ${f.rate429}`);
  number('faults.retryAfterMs', f.retryAfterMs, { from: 0, to: 3_600_000 });
  number('faults.slowMs', f.slowMs, { from: 0, to: 3_600_000 });
  number('faults.cutSockets', f.cutSockets, { whole: true, from: 0, to: Infinity });
  number('faults.cutEvery', f.cutEvery, { whole: true, from: 1, to: 1_000_000 });
  number('faults.crashWorkers', f.crashWorkers, { whole: true, from: 0, to: 1000 });
  check('faults.poisonSha256', f.poisonSha256, isHashList(f.poisonSha256), 'an array of SHA-256 hashes in lower-case hex');
  check('faults.blame', f.blame, typeof f.blame === 'boolean', 'true or false');
  return checked;
}

/**
 * @param {import('./types.d.mts').ModelServerOptions['chat']} given
 * @returns {import('./types.d.mts').CheckedChatOptions | undefined} `undefined` when there is to be no chat
 */
function checkChat(given = false) {
  if (given === false) return undefined;
  check('chat', given, given === true || (typeof given === 'object' && given !== null), 'true, false or an object');
  const checked = withDefaults('chat.', CHAT_DEFAULTS, given === true ? {} : given);
  number('chat.sequences', checked.sequences, { whole: true, from: 1, to: 64 });
  number('chat.maxThreads', checked.maxThreads, { whole: true, from: 1, to: 64 });
  number('chat.maxCompletionTokens', checked.maxCompletionTokens, { whole: true, from: 1, to: 2047 });
  number('chat.maxQueuedChats', checked.maxQueuedChats, { whole: true, from: 0, to: Infinity });
  return checked;
}

/**
 * A misspelt option is an error, not a default.
 *
 * @template {object} D
 * @param {string} prefix
 * @param {D} defaults
 * @param {object} given
 * @returns {D}
 */
function withDefaults(prefix, defaults, given) {
  for (const name of Object.keys(given)) {
    if (!(name in defaults))
      throw new TypeError(`startModelServer: unknown option \`${prefix}${name}\`, known are ${Object.keys(defaults).join(', ')}`);
  }
  return { ...defaults, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
}

/**
 * @template T
 * @param {string} name
 * @param {T} value
 */
function object(name, value) {
  check(name, value, typeof value === 'object' && value !== null, 'an object');
  return value;
}

/**
 * @param {string} name
 * @param {number} value
 * @param {{ whole?: boolean, from: number, to: number }} range
 */
function number(name, value, { whole = false, from, to }) {
  const fits = typeof value === 'number' && value >= from && value <= to && (!whole || Number.isInteger(value) || value === Infinity);
  const least = from === Number.MIN_VALUE ? 'above 0' : `from ${from}`;
  check(name, value, fits, `a ${whole ? 'whole ' : ''}number ${least} to ${to}`);
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {boolean} fits
 * @param {string} expected
 */
function check(name, value, fits, expected) {
  if (!fits) throw new TypeError(`startModelServer: expected \`${name}\` to be ${expected}, got \`${String(value)}\` (${typeof value})`);
}

/** @param {unknown} value */
function isHashList(value) {
  return Array.isArray(value) && value.every((hash) => typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash));
}
