import { createLimiter } from 'sluice';
import { type CallRules, createFetch, type FetchOptions, type HttpRequest, type HttpRules } from 'sluice/fetch';

const rules: CallRules = { limiter: createLimiter({ concurrency: 2 }), retry: { maxAttempts: 2 }, deadlineMs: 1000 };
const httpRules: HttpRules = { ...rules, lane: ({ url, json }: HttpRequest) => (json === undefined ? url : 'default') };
const options: FetchOptions = { ...httpRules, cost: ({ method }) => ({ tokens: method.length }), fetch: globalThis.fetch };

export const limited: typeof fetch = createFetch(options);
same<typeof fetch>()(createFetch());
