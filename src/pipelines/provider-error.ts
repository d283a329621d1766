/** An answer of the provider that is not a success, with what a classifier looks at. The message is the provider's own. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';

  constructor(
    /** Undefined when it came in the middle of a stream that had begun well. */
    readonly status: number | undefined,
    readonly headers: Headers,
    message: string,
    readonly code: string | undefined,
    readonly type: string | undefined,
    /** Which part of the request is at fault, for example `input[3]`. */
    readonly param: string | undefined,
  ) {
    super(message);
  }
}

/** What the provider says in the `error` of a body. */
export interface ErrorBody {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly type?: unknown;
  readonly param?: unknown;
}

/** The error that a response stands for. */
export async function responseError(response: Response): Promise<ProviderError> {
  const text = await response.text();
  let error: ErrorBody = {};
  try {
    error = (JSON.parse(text) as { error?: ErrorBody } | null)?.error ?? {};
  } catch {
    // Not JSON: a proxy in between, most likely. The start of its answer is the best message there is.
  }
  const message = word(error.message) ?? (text.slice(0, 200) || response.statusText || 'no message');
  return providerError(response.status, response.headers, `${String(response.status)} ${message}`, error);
}

/** The error that comes instead of the next part of a stream. */
export function streamError(error: ErrorBody): ProviderError {
  return providerError(undefined, new Headers(), word(error.message) ?? 'the stream ended with an error', error);
}

function providerError(status: number | undefined, headers: Headers, message: string, { code, type, param }: ErrorBody): ProviderError {
  return new ProviderError(status, headers, message, word(code), word(type), word(param));
}

function word(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
