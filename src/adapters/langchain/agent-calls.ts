import { RunnableBinding, RunnableSequence } from '@langchain/core/runnables';
import type { AgentMiddleware } from 'langchain';

/**
 * Middleware that adds nothing to the state and the context of an agent.
 * @beta
 */
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
export function underSignal<T extends object>(it: T, signal: AbortSignal, more: CallOptions = {}): T {
  const { invoke, bindTools } = it as Invokable;
  const under = <O extends object>(other: O): O => underSignal(other, signal, more);
  const signalWith = (own: AbortSignal | undefined) => (own ? AbortSignal.any([signal, own]) : signal);
  const own = new Map<string | symbol, unknown>();
  if (invoke) {
    own.set('invoke', (input: unknown, options: CallOptions = {}) =>
      invoke.call(it, input, { ...options, ...more, signal: signalWith(options.signal) }),
    );
  }
  if (bindTools) own.set('bindTools', (...bound: unknown[]) => under(bindTools.apply(it, bound)));
  // Where a model is inside something, an agent takes it out to give it the tools.
  if (RunnableBinding.isRunnableBinding(it)) own.set('bound', under(it.bound));
  if (RunnableSequence.isRunnableSequence(it)) own.set('steps', it.steps.map(under));
  return new Proxy(it, {
    // Read by itself, not by the proxy, which is shown nothing that a class keeps private.
    get: (_, name) => (own.has(name) ? own.get(name) : Reflect.get(it, name, it)),
  });
}
