import { FlowConfigError } from '../../../operators/index.js';

/** What every request to a model says. */
export interface Asked {
  readonly abortSignal?: AbortSignal | undefined;
}

/** Makes a request in place of the model's own method, which is `send`. */
type MakeCall = (params: never, send: never) => PromiseLike<unknown>;

/**
 * The same model with these methods, where it has them; of whatever version of the specification.
 *
 * @param method - one that it must have
 * @throws FlowConfigError
 */
export function limited<M extends object>(name: string, model: M, method: string, calls: Readonly<Record<string, MakeCall>>): M {
  const given = Object(model) as Readonly<Record<string, unknown>>;
  if (typeof given[method] !== 'function') throw new FlowConfigError(name, 'model', `a model of a provider with \`${method}\``, model);
  const own = new Map<string | symbol, unknown>();
  for (const [key, call] of Object.entries(calls)) {
    const send = given[key];
    if (typeof send === 'function')
      own.set(key, (params: Asked) => call(params as never, ((sent: Asked) => Reflect.apply(send, model, [sent]) as unknown) as never));
  }
  // Read by itself, not by the proxy, which is shown nothing that a class keeps private.
  return new Proxy(model, { get: (_, key) => own.get(key) ?? (Reflect.get(model, key, model) as unknown) });
}
