import type { Classify } from '../../operators/index.js';
import { classifyError, isFlowError } from '../../operators/index.js';
import { errorCode } from '../journal/file-error.js';
import { CliError, EXIT } from './exit.js';
import type { Hide, Shown } from './secrets.js';
import { visible } from './visible.js';

/** A server that never answered is not there, and trying again would only hide that; one that did may be restarting. */
export function classifyWhile(answered: boolean, error: unknown, context: Parameters<Classify>[1]): ReturnType<Classify> {
  const { code } = evidence(error);
  if (!answered && code !== undefined && UNREACHABLE.has(code)) return { class: 'fatal' };
  return classifyError(error, context);
}

/**
 * What a failed call means for the run:
 * - `stop`: all other calls would fail too, the run ends with this error;
 * - `poisoned`: the provider refuses this text;
 * - `failed`: no answer arrived in spite of retries; another run may succeed.
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
  /** The same for an address that has no such model. */
  readonly address: string;
  /** What to do when no server is there. */
  readonly start: string;
}

export function explainFailure(
  error: unknown,
  { model, shown }: { readonly model: string; readonly shown: Shown },
  words: ProviderWords,
): Failure {
  const { address } = shown;
  const { status, code } = evidence(error);
  const message = saidBy(error, shown.hide);
  const stop = (sentence: string): Failure => ({ kind: 'stop', error: new CliError(EXIT.provider, sentence, error) });
  if (status === 401 || status === 403) {
    return stop(`${address} refuses the key: ${message}. Set ${words.keys} to a valid one`);
  }
  if (status === 404)
    return stop(
      `${address} does not know the model \`${model}\`, or is not the whole address of the API: ${message}. Check ${words.address}`,
    );
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
