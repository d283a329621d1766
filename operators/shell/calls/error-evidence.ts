import { fieldOf, tryRead } from '../../kernel/repair/field-of.js';
import type { RefusalDetails } from '../../kernel/repair/refusal-details.js';
import { refusalDetails } from '../../kernel/repair/refusal-details.js';
import type { HeadersLike } from '../../options/types.js';

type Fields = Readonly<Record<string, unknown>>;

/**
 * What one error object says about itself, whichever SDK made it.
 * @beta
 */
export interface Evidence {
  readonly error: unknown;
  /** Its own `code`, without those of its body. */
  readonly code: unknown;
  /** HTTP status, 400 to 599. */
  readonly status: number | undefined;
  readonly headers: HeadersLike | undefined;
  /** Every `code` (that of JSON-RPC is a number), `type` and `name`, its own and those of its body; the class it was made by comes last. */
  readonly words: readonly string[];
  /** What its `param` fields name. */
  readonly params: readonly string[];
  /** Its message and those of its body. */
  readonly messages: readonly string[];
  /** What its bodies say of a refusal. */
  readonly details: RefusalDetails;
}

/** Errors looked at in one chain, so that a long or endless one costs little. */
const MAX_LINKS = 16;

/** Where the body of a response may hang, and where one body may hang in another. */
const BODY_FIELDS = ['error', 'data', 'body', 'response', '$metadata'] as const;
const MAX_BODY_DEPTH = 3;

/** How SDKs spell it; the last is that of the AWS SDK. */
const STATUS_FIELDS = ['status', 'statusCode', 'status_code', 'httpStatusCode'] as const;

/** A body or message is a few hundred characters; of a longer one, which is an HTML page or worse, nothing behind this is read. */
const MAX_TEXT = 65_536;

/**
 * Reads what an error says about itself: status, headers, codes, messages, and what its body says of a refusal. Use it where `classifyError` is too
 * coarse, for example to read one code of one provider.
 *
 * - **Returns** one {@link Evidence} for the error and for each error behind it (`lastError`, `errors` with the latest first, `cause`): nearest first,
 *   each error once, at most 16.
 * - **Never throws:** a field that cannot be read, such as a getter that throws, counts as missing. Texts are cut at 65,536 characters.
 *
 * @beta
 * @example
 * ```ts
 * import { evidenceOf } from 'sluice/operators/build';
 *
 * const answer = Object.assign(new Error('busy'), { status: 429, headers: { 'retry-after': '2' } });
 * const [outer, inner] = evidenceOf(new Error('request failed', { cause: answer }));
 * [outer?.status, inner?.status]; // => [undefined, 429]
 * ```
 */
export function evidenceOf(error: unknown): Evidence[] {
  return linksOf(error).map(evidenceIn);
}

export function linksOf(error: unknown): unknown[] {
  const links = new Set<unknown>([error]);
  for (const link of links) {
    for (const next of nextLinks(fieldsOf(link))) if (links.size < MAX_LINKS && next !== undefined && next !== null) links.add(next);
  }
  return [...links];
}

/** What one of them says. */
export function evidenceIn(error: unknown): Evidence {
  const bodies = bodiesOf(error);
  const pick = (name: string): string[] =>
    bodies
      .map((body) => fieldOf(body, name))
      .flatMap((said) => (typeof said === 'string' || typeof said === 'number' ? [String(said)] : []));
  const madeBy = isA(error, Error) ? fieldOf(fieldOf(error, 'constructor'), 'name') : undefined;
  const messages = (typeof error === 'string' ? [error] : pick('message')).map((text) => text.slice(0, MAX_TEXT));
  return {
    error,
    code: fieldOf(error, 'code'),
    status: statusOf(bodies),
    headers: bodies.flatMap((body) => [fieldOf(body, 'headers'), fieldOf(body, 'responseHeaders')]).find(isHeaders),
    words: [...pick('code'), ...pick('type'), ...pick('name'), ...(typeof madeBy === 'string' ? [madeBy] : [])],
    params: pick('param'),
    messages,
    details: refusalDetails(bodies, messages),
  };
}

/** `instanceof` for an error that others made. */
function isA<T>(error: unknown, kind: new (...args: never[]) => T): error is T {
  return tryRead(() => error instanceof kind) === true;
}

/** Whether the nearest error that gives a status says that the other side has too much to do; without one, whether any says so in a word. */
export function isOverloaded(error: unknown): boolean {
  const all = evidenceOf(error);
  const status = all.find((evidence) => evidence.status !== undefined)?.status;
  return status === undefined ? all.some(({ words }) => words.includes('overloaded_error')) : status === 503 || status === 529;
}

/** What the language itself throws at a bug, and Node at arguments that are wrong. By name, because there may be other realms. */
const BUGS: ReadonlySet<unknown> = /* @__PURE__ */ new Set(['TypeError', 'ReferenceError', 'RangeError']);

/** Whether it looks like a bug, or carries one. A failed `fetch` is a `TypeError` as well, so this is asked when nothing else is known. */
export function isBug(error: unknown): boolean {
  return linksOf(error).some((link) => BUGS.has(fieldOf(fieldsOf(link), 'name')));
}

function nextLinks(fields: Fields): unknown[] {
  const errors = fieldOf(fields, 'errors');
  const several = tryRead((): unknown[] => (Array.isArray(errors) ? errors.slice(-MAX_LINKS).reverse() : [])) ?? [];
  return [fieldOf(fields, 'lastError'), ...several, fieldOf(fields, 'cause')];
}

/** The error itself and the bodies inside it, outermost first. */
function bodiesOf(error: unknown): Fields[] {
  const bodies = new Set<Fields>();
  const visit = (value: unknown, depth: number): void => {
    const fields = fieldsOf(value);
    if (bodies.has(fields) || fields === NOTHING) return;
    bodies.add(fields);
    if (depth === MAX_BODY_DEPTH) return;
    for (const name of BODY_FIELDS) visit(fieldOf(fields, name), depth + 1);
    // Also beside `data`, which may be what a schema has left of it.
    visit(parsed(fieldOf(fields, 'responseBody')), depth + 1);
  };
  visit(error, 0);
  return [...bodies];
}

/** Some servers put the status into the body as a number, also in a stream that began with 200. */
function statusOf(bodies: readonly Fields[]): number | undefined {
  const named = bodies.flatMap((body) => STATUS_FIELDS.map((name) => fieldOf(body, name)));
  return [...named, ...bodies.map((body) => fieldOf(body, 'code'))].map(statusIn).find((status) => status !== undefined);
}

/** From a number, or from one written as text. */
function statusIn(value: unknown): number | undefined {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599 ? status : undefined;
}

function parsed(text: unknown): unknown {
  if (typeof text !== 'string' || text.length > MAX_TEXT) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isHeaders(value: unknown): value is HeadersLike {
  return typeof value === 'object' && value !== null;
}

const NOTHING: Fields = {};

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : NOTHING;
}
