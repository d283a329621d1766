import { throwError, UnsubscriptionError } from 'rxjs';

/**
 * Reports an error that has no subscriber or promise to go to, such as one of a detached clean-up. Do not use it for an error that a caller can be given.
 *
 * RxJS reports it from a timer of 0 ms, as it reports what observers throw: to `config.onUnhandledError` when that is set, else it is thrown and
 * becomes an uncaught error of the process or page. `report` itself never throws.
 *
 * @beta
 * @example
 * ```ts
 * import { config } from 'rxjs';
 * import { report } from 'sluice/operators/build';
 *
 * const reported = new Promise((resolve) => (config.onUnhandledError = resolve));
 * report('the connection was not closed');
 * await reported; // => 'the connection was not closed'
 * config.onUnhandledError = null;
 * ```
 */
export function report(error: unknown): void {
  // eslint-disable-next-line rxjs-x/throw-error -- what was thrown is passed on as it is
  throwError(() => error).subscribe();
}

/** What teardowns have thrown, while a consumer leaves. */
let thrown: unknown[] | undefined;

/** A teardown has thrown: handed to the consumer that leaves, if one does, else reported. */
export function reportTeardown(error: unknown): void {
  if (thrown) thrown.push(...(error instanceof UnsubscriptionError ? (error.errors as unknown[]) : [error]));
  else report(error);
}

/**
 * Tears down for a consumer that leaves: everything is cleaned up before what teardowns have thrown is thrown on, as in RxJS.
 *
 * @throws UnsubscriptionError
 */
export function tearDown(cleanUp: () => void): void {
  const outer = thrown;
  const errors: unknown[] = (thrown = []);
  try {
    cleanUp();
  } finally {
    thrown = outer;
  }
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- RxJS flattens it into its own, and nothing else is thrown by it
  if (errors.length > 0) throw new UnsubscriptionError(errors);
}
