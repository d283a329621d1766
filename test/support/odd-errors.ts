import { Observable, throwError } from 'rxjs';

/** Every field of an error that this package reads; `unlisted` finds one that is missing here. */
export const READ = [
  ...['@@sluice/FlowError', 'code', 'name', 'message', 'type', 'param', 'constructor', 'retryAfterMs', 'operator', 'isRetryable'],
  ...['status', 'statusCode', 'status_code', 'httpStatusCode', 'headers', 'responseHeaders'],
  ...['error', 'data', 'body', 'response', '$metadata', 'responseBody', 'cause', 'lastError', 'errors'],
  ...['details', 'retry_after_ms', 'retry_after'],
] as const;

const refuse = (): never => {
  throw new Error('unreadable');
};

function gone(): object {
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  return proxy;
}

/** A proxy that throws for every operation. */
function shut(): object {
  const traps = Reflect.ownKeys(Reflect).filter((key) => typeof key === 'string');
  return new Proxy({}, Object.fromEntries(traps.map((trap) => [trap, refuse])));
}

/** Values of a field that throw when they are inspected. */
const VALUES: Readonly<Record<string, () => unknown>> = {
  gone,
  shut,
  'a list of what is gone': () => [gone(), shut()],
  'a list that cannot be read': () => Object.defineProperty([0], 0, { get: refuse }),
  'no text': () => ({ toString: refuse }),
  symbol: () => Symbol('odd'),
  'nothing with a name': () => Object.create(null) as unknown,
};

const read = (name: string, status: object, field: PropertyDescriptor): unknown =>
  Object.defineProperty(Object.assign(new Error('odd'), status), name, { configurable: true, ...field });

/** Makers of errors that cannot be read, or not all of them. */
export const ODD_ERRORS: readonly (readonly [string, () => unknown])[] = [
  ['gone', gone],
  ['shut', shut],
  ['a function', () => Object.defineProperty(() => undefined, 'name', { get: refuse })],
  ...READ.flatMap((name) => [
    ...[429, undefined].map(
      (status) =>
        [
          `${String(status)} with an unreadable ${name}`,
          () => read(name, status === undefined ? {} : { status }, { get: refuse }),
        ] as const,
    ),
    ...Object.entries(VALUES).map(([what, value]) => [`${name}: ${what}`, () => read(name, {}, { value: value() })] as const),
  ]),
  ...Object.entries(VALUES).map(
    ([what, value]) => [`retry-after: ${what}`, () => ({ status: 429, headers: { 'retry-after': value() } })] as const,
  ),
  ['headers without words', () => ({ status: 429, headers: { get: refuse } })],
];

/** How work may fail. */
export const WAYS: Readonly<Record<string, (error: unknown) => unknown>> = {
  'throws it': (error) => {
    throw error;
  },
  // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
  'rejects with it': (error) => Promise.reject(error),
  'errs with it': (error) => throwError(() => error),
  'errs with it later': (error) =>
    new Observable((to) => {
      const timer = setTimeout(() => {
        to.error(error);
      });
      return () => {
        clearTimeout(timer);
      };
    }),
};

/** Makes a call with work that fails, and says what became of it: the error, and whether all that it held is free again. */
export type OddCall = (work: () => unknown) => Promise<{ readonly error: unknown; readonly isFree: boolean }>;

/**
 * Calls whose error is not the same object, or that never end, or that keep what they hold. The oddest fail in each way, the others take turns.
 *
 * @param share `[i, of]`: of the others the i-th part, so that so many calls meet all of them together
 */
export async function mistakenIn(call: OddCall, [i, of]: readonly [number, number]): Promise<string[]> {
  const ways = Object.entries(WAYS);
  const cases = ODD_ERRORS.flatMap(([name, make], at) =>
    (at < 3 ? ways : at % of === i % of ? [ways[Math.floor(at / of) % ways.length]!] : []).map(([way, fail]) => ({
      name: `${way}: ${name}`,
      make,
      fail,
    })),
  );
  const mistakes = await Promise.all(
    cases.map(async ({ name, make, fail }) => {
      const error = make();
      const ended = await Promise.race([
        call(() => fail(error)),
        new Promise<'never ends'>((end) => setTimeout(end, PATIENCE_MS, 'never ends')),
      ]);
      if (ended === 'never ends') return [`${name}: ${ended}`];
      return [...(Object.is(ended.error, error) ? [] : [`${name}: another error`]), ...(ended.isFree ? [] : [`${name}: is not free`])];
    }),
  );
  return mistakes.flat();
}

/** A call is over in a few ms; there are hundreds of them at a time. */
const PATIENCE_MS = 10_000;

/** Which fields of an error a call reads that no test here makes unreadable. */
export async function unlisted(call: OddCall): Promise<string[]> {
  const asked = new Set<string>();
  const watched = (target: object): object =>
    new Proxy(target, {
      get: (of, name) => {
        if (typeof name === 'string') asked.add(name);
        return Reflect.get(of, name) as unknown;
      },
    });
  for (const fail of Object.values(WAYS)) await call(() => fail(watched({ data: watched({}), cause: watched({}) })));
  const listed: readonly string[] = READ;
  return [...asked].filter((name) => !listed.includes(name));
}

/** The reason of a promise, in an object, because it may have a `then` that throws when it is read. */
export async function failureOf(promise: PromiseLike<unknown>): Promise<{ readonly error: unknown }> {
  try {
    await promise;
  } catch (error) {
    return { error };
  }
  throw new Error('it has not failed');
}
