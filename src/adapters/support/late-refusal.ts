/** What is read of a stream before its first piece; an answer that begins with more is handed on. */
const MOST_BYTES = 65_536;

/** The first event that is part of the answer, its line as a whole. */
const PIECE = /^event: ?(?!message_start\b|ping\b|error\b)\S[^\n]*\n/m;
/** An error before it, and its data. */
const LATE_ERROR = /^event: ?error\r?\n(?:[^\n]*\n){0,4}?data: ?([^\n]{1,20000})\r?\n/m;

/**
 * The response, or when its stream begins with `overloaded_error` in place of a piece, the 529 that it stands for: the server has said 200 before it knew.
 * A stream is held back until its first piece is there.
 */
export async function withLateRefusal(response: Response): Promise<Response> {
  const { body, status, headers } = response;
  if (status !== 200 || typeof body?.getReader !== 'function' || !(headers.get('content-type') ?? '').includes('text/event-stream'))
    return response;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const chunks: Uint8Array[] = [];
  let text = '';
  for (let bytes = 0; bytes < MOST_BYTES && !PIECE.test(text); ) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    bytes += value.byteLength;
    text += decoder.decode(value, { stream: true });
    const refusal = refusalIn(text);
    if (refusal !== undefined) {
      reader.cancel().catch(() => undefined);
      return new Response(refusal, { status: 529, headers: withoutStream(headers) });
    }
  }
  return rebuilt(response, chunks, reader);
}

function refusalIn(text: string): string | undefined {
  const late = LATE_ERROR.exec(text);
  const data = late?.[1];
  if (late === null || data === undefined || (PIECE.exec(text)?.index ?? Infinity) < late.index) return undefined;
  try {
    const { error } = JSON.parse(data) as { readonly error?: { readonly type?: unknown } };
    return error?.type === 'overloaded_error' ? data : undefined;
  } catch {
    return undefined;
  }
}

function withoutStream(headers: Headers): Headers {
  const own = new Headers(headers);
  own.set('content-type', 'application/json');
  for (const name of ['content-length', 'content-encoding', 'transfer-encoding']) own.delete(name);
  return own;
}

/** The same response, with what was read in front of the rest. */
function rebuilt(response: Response, chunks: readonly Uint8Array[], reader: ReadableStreamDefaultReader<Uint8Array>): Response {
  let at = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const known = chunks[at++];
        if (known) {
          controller.enqueue(known);
          return;
        }
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  const copy = new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
  for (const name of ['url', 'redirected', 'type'] as const) Object.defineProperty(copy, name, { value: response[name] });
  return copy;
}
