/**
 * The platform the operators may lean on: what Node, browsers, workers and edge runtimes all have, and only the members
 * that are used. `tsconfig.operators.json` compiles the operators against this file instead of the DOM's types, so that
 * a `document` or a `process` in an operator is a compile error. The main tsconfig leaves it out: it has the real types.
 */

interface AbortSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once?: boolean }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

interface AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare const AbortController: new () => AbortController;

interface DOMException extends Error {
  readonly name: string;
}

declare const DOMException: new (message?: string, name?: string) => DOMException;

interface ReadableStreamDefaultController<T> {
  enqueue(chunk: T): void;
  close(): void;
}

interface ReadableStream<T> {
  cancel(reason?: unknown): Promise<void>;
}

declare const ReadableStream: new <T>(
  source: { pull(controller: ReadableStreamDefaultController<T>): Promise<void>; cancel(reason: unknown): void },
  strategy: { readonly highWaterMark: number },
) => ReadableStream<T>;
