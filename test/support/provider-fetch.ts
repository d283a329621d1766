import { Subscription } from 'rxjs';
import type { ProviderSimulation } from '../../marbles/providers/types.js';

/** A `fetch` whose only server is the provider: what a client sees of it over HTTP, on the provider's own clock. */
export function fetchOf(provider: ProviderSimulation): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const { pathname, search } = new URL(request.url);
    const text = await request.text();
    const isJson = text.startsWith('{');
    const asked = {
      path: pathname + search,
      method: request.method,
      headers: Object.fromEntries(request.headers),
      body: isJson ? (JSON.parse(text) as unknown) : undefined,
    };
    return new Promise<Response>((resolve, reject) => {
      let body: ReadableStreamDefaultController<Uint8Array> | undefined;
      const encoder = new TextEncoder();
      const fail = (error: Error): void => {
        if (body) body.error(error);
        else reject(error);
      };
      const calling = new Subscription();
      // Also the request's own signal: that of `init` lives in it.
      const answer = provider.request(asked, request.signal).subscribe({
        next: (event) => {
          if (event.type === 'chunk') {
            body?.enqueue(encoder.encode(event.text));
            return;
          }
          const stream = new ReadableStream<Uint8Array>({
            start: (controller) => {
              body = controller;
            },
            cancel: () => {
              calling.unsubscribe();
            },
          });
          resolve(new Response(stream, { status: event.status, headers: event.headers }));
        },
        error: fail,
        complete: () => body?.close(),
      });
      calling.add(answer);
    });
  };
}
