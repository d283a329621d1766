import type { AgentMiddleware } from 'langchain';
import type { Observable } from 'rxjs';
import { passLastValue } from '../../../operators/support/limiting/limiter-work.js';

/** Middleware that adds nothing to the state and the context of an agent. */
export type Middleware = AgentMiddleware<undefined, undefined, unknown, readonly [], readonly []>;

interface CallOptions {
  readonly signal?: AbortSignal;
  readonly maxRetries?: number;
}

interface Invokable {
  readonly invoke?: (input: unknown, options: CallOptions) => unknown;
  /** Of a model: makes another one of it, which is then called. */
  readonly bindTools?: (...bound: unknown[]) => object;
}

/** The same model or tool, whose calls also end with the signal; an agent gives them only its own. */
export function underSignal<T extends Invokable | object>(it: T, signal: AbortSignal, more: CallOptions = {}): T {
  const { invoke, bindTools } = it as Invokable;
  const signalWith = (own: AbortSignal | undefined) => (own ? AbortSignal.any([signal, own]) : signal);
  return Object.create(it, {
    ...(invoke && {
      invoke: {
        value: (input: unknown, options: CallOptions = {}) =>
          invoke.call(it, input, { ...options, ...more, signal: signalWith(options.signal) }),
      },
    }),
    ...(bindTools && { bindTools: { value: (...bound: unknown[]) => underSignal(bindTools.apply(it, bound), signal, more) } }),
  }) as T;
}

/** What a policy answers, as a promise. */
export function answerOf<R>(calls: Observable<R>): Promise<R> {
  return new Promise((resolve, reject) => {
    passLastValue(calls, resolve, reject);
  });
}
