import { createLimiter } from 'sluice/operators';
import type { Observable } from 'rxjs';
import {
  limitFetch,
  type EventStreamContext,
  type EventStreamOptions,
  type EventStreamRequest,
  type LimitFetchOptions,
  fromEventStream,
  type HttpRequest,
  type HttpRules,
  type ServerEvent,
} from 'sluice/fetch';

const rules = { limiter: createLimiter({ concurrency: 2 }), retry: { maxAttempts: 2 }, deadlineMs: 1000 };
const httpRules: HttpRules = { ...rules, job: ({ url, json }: HttpRequest) => ({ lane: json === undefined ? url : 'default' }) };
const options: LimitFetchOptions = { ...httpRules, job: ({ method }) => ({ cost: { tokens: method.length } }), fetch: globalThis.fetch };

export const limited: typeof fetch = limitFetch(options);
same<typeof fetch>()(limitFetch());

const streaming: EventStreamOptions = { reconnect: { maxAttempts: 5 }, reconnectAtEnd: true };
const request: EventStreamRequest = ({ signal, lastEventId }: EventStreamContext) => fetch(`http://127.0.0.1/${lastEventId}`, { signal });
same<Observable<ServerEvent>>()(fromEventStream(request, streaming));
