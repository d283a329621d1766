import { throwError } from 'rxjs';

/** Hands an error nobody waits for to RxJS, which reports it from a timer, as it does with what observers throw. */
export function report(error: unknown): void {
  // eslint-disable-next-line rxjs-x/throw-error -- what was thrown is passed on as it is
  throwError(() => error).subscribe();
}
