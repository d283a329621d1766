import { classifyError } from '../../operators/classify-error.js';
import { isFlowError } from '../../operators/errors.js';
import { robust } from '../../operators/repair.js';
import type { Classify, FlowSink } from '../../operators/types.js';
import { createEmbedder, type Embedder } from '../pipelines/create-embedder.js';
import { CliError, EXIT, errorCode } from './exit.js';
import type { Hide, Shown } from './secrets.js';
import { visible } from './visible.js';

/** Where texts are embedded, and how much it may be asked. Infinity is no limit. */
export interface ProviderOptions {
  readonly baseUrl: string;
  readonly model: string;
  readonly apiKey: string | undefined;
  readonly shown: Shown;
  /** Most texts in one call. */
  readonly maxBatch: number;
  readonly maxBatchTokens: number | undefined;
  readonly concurrency: number;
  readonly requestsPerMinute: number;
  readonly tokensPerMinute: number;
}

/** A long job outlives a provider that is overloaded for half a minute. */
const MAX_ATTEMPTS = 8;

/** Of what was to be sent when no more was. */
export class NotSentError extends Error {}

/** @param stop nothing more is sent once it has aborted, also no retry */
export function openEmbedder(options: ProviderOptions, onEvent: FlowSink, stop?: AbortSignal): Embedder {
  let answered = false;
  return createEmbedder({
    baseUrl: options.baseUrl,
    model: options.model,
    maxSize: options.maxBatch,
    concurrency: options.concurrency,
    requestsPerMinute: options.requestsPerMinute,
    tokensPerMinute: options.tokensPerMinute,
    repair: robust({ retry: { maxAttempts: MAX_ATTEMPTS } }),
    classify: (error, context) => (error instanceof NotSentError ? { class: 'fatal' } : classifyWhile(answered, error, context)),
    fetch: async (input, init) => {
      if (stop?.aborted) throw new NotSentError('stopped');
      return fetch(input, init);
    },
    onEvent: (event) => {
      if (event.type === 'attemptEnded' && event.outcome === 'ok') answered = true;
      onEvent(event);
    },
    ...(options.apiKey !== undefined && { apiKey: options.apiKey }),
    ...(options.maxBatchTokens !== undefined && { maxTokens: options.maxBatchTokens }),
  });
}

/** A server that never answered is not there, and trying again would only hide that; one that did may be restarting. */
export function classifyWhile(answered: boolean, error: unknown, context: Parameters<Classify>[1]): ReturnType<Classify> {
  const { code } = evidence(error);
  if (!answered && code !== undefined && UNREACHABLE.has(code)) return { class: 'fatal' };
  return classifyError(error, context);
}

/**
 * What a text that got no vector means for the run:
 * - `stop`: no text will fare better, the run ends with this error;
 * - `poisoned`: the provider refuses this very text;
 * - `failed`: no answer came in spite of retries; another run may succeed.
 */
export type Failure =
  | { readonly kind: 'stop'; readonly error: CliError }
  | { readonly kind: 'poisoned' | 'failed'; readonly reason: string };

/** Where the user says what is wrong. */
export interface ProviderWords {
  /** Variables that hold the key. */
  readonly keys: string;
  /** Options that name the model and its address. */
  readonly options: string;
  /** What to do when no server is there. */
  readonly start: string;
}

const EMBEDDER_WORDS: ProviderWords = {
  keys: 'SLUICE_API_KEY or OPENAI_API_KEY',
  options: '`--model` and `--base-url`',
  start: 'is the server running? Start one with `sluice serve`',
};

export function explainFailure(
  error: unknown,
  { model, shown }: Pick<ProviderOptions, 'model' | 'shown'>,
  words: ProviderWords = EMBEDDER_WORDS,
): Failure {
  const { address } = shown;
  const { status, code } = evidence(error);
  const message = saidBy(error, shown.hide);
  const stop = (sentence: string): Failure => ({ kind: 'stop', error: new CliError(EXIT.provider, sentence, error) });
  if (status === 401 || status === 403) {
    return stop(`${address} refuses the key: ${message}. Set ${words.keys} to a valid one`);
  }
  if (status === 404) return stop(`${address} does not know the model \`${model}\`: ${message}. Check ${words.options}`);
  if (code !== undefined && UNREACHABLE.has(code)) {
    return stop(`cannot reach ${address} (${code}): ${words.start}`);
  }
  if (message.endsWith('bad port'))
    return stop(`cannot reach ${address}: \`fetch\` does not go to that port; start the server on another one`);
  const { class: kind } = classifyError(error, { size: 1, attempt: 1, aborted: false });
  if (kind === 'fatal' && !isFlowError(error)) return stop(`${address} refuses to work: ${message}`);
  // Without a status nobody refused anything: the answer was not understood, or did not come.
  const refused = status !== undefined && (kind === 'itemFault' || kind === 'tooLarge');
  const poisoned = refused || isFlowError(error, 'FLOW_ITEM_TOO_HEAVY');
  return { kind: poisoned ? 'poisoned' : 'failed', reason: message };
}

const UNREACHABLE: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);

/** A provider's message can quote what it was sent; a line of it is enough. */
const MAX_MESSAGE_LENGTH = 200;

/** What an error says, for people. What is secret is hidden first: of a key that is cut the beginning would be left. */
export function saidBy(error: unknown, hide: Hide): string {
  return visible(hide(evidence(error).message).replaceAll(/\s+/g, ' ')).slice(0, MAX_MESSAGE_LENGTH);
}

/** What the error and those behind it say; `fetch` hides the system's error in `cause`, behind several when a name has several addresses. */
export function evidence(error: unknown): { status: number | undefined; code: string | undefined; message: string } {
  let status: number | undefined;
  let code: string | undefined;
  const messages: string[] = [];
  for (let link: unknown = error, depth = 0; link instanceof Error && depth < 5; link = link.cause, depth += 1) {
    const { status: linkStatus } = link as { status?: unknown };
    if (typeof linkStatus === 'number') status ??= linkStatus;
    code ??= errorCode(link instanceof AggregateError ? (link.errors[0] ?? link) : link);
    if (link.message !== '') messages.push(link.message);
  }
  const message = (status === undefined ? messages.join(': ') : messages[0]) ?? String(error);
  return { status, code, message };
}
