import { throwError, UnsubscriptionError } from 'rxjs';

/** Hands an error nobody waits for to RxJS, which reports it from a timer, as it does with what observers throw. */
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
