import type { AccountOptions } from '../operators/create-account.js';
import { createAccount } from '../operators/create-account.js';
import type { ModelApi, ModelApiOptions } from '../test/fakes/model-api.js';
import { startModelApi } from '../test/fakes/model-api.js';
import type { MixedLoad } from '../test/support/mixed-load.js';
import { mixedLoad } from '../test/support/mixed-load.js';
import { table } from './harness.js';

const LIMITS = { requestsPerMinute: 600, tokensPerMinute: 60_000 } as const;
/** What the server lets be saved up. */
const SERVER_BURST_SECONDS = 2;
const DURATION_MS = 60_000;
/** Calls at a time of each SDK. */
const CONCURRENCY = 8;
const LATENCY_MS = { least: 100, most: 400 } as const;

const latencyMs = (): number => LATENCY_MS.least + Math.random() * (LATENCY_MS.most - LATENCY_MS.least);

/** What the server counts of each call. */
type Charges = NonNullable<ModelApiOptions['charges']>;

/** None: each SDK is left to itself. */
type Contestants = Readonly<Record<string, AccountOptions | undefined>>;

const contestants: Readonly<Record<Charges, Contestants>> = {
  reported: {
    'one limiter, defaults': {},
    'one limiter, `headroom: 1`, `burstSeconds: 1`': { headroom: 1, burstSeconds: 1 },
    "one limiter, `headroom: 1`, the server's 2 s of burst": { headroom: 1, burstSeconds: SERVER_BURST_SECONDS },
    'each SDK alone, 8 calls at a time': undefined,
  },
  allowed: {
    'one limiter, defaults (`refunds: true`)': {},
    'one limiter, `refunds: false`': { refunds: false },
    'one limiter, `refunds: false`, `headroom: 1`, `burstSeconds: 1`': { refunds: false, headroom: 1, burstSeconds: 1 },
  },
};

interface Result extends MixedLoad {
  /** What can be saved up and is spent at the start, on top of what comes in: seconds of the rates. */
  readonly burstSeconds: number;
  /** When the time was over. */
  readonly atEnd: Pick<ModelApi, 'completed' | 'refused' | 'tokensCharged'> & { readonly requests: number };
}

async function run(charges: Charges, options: AccountOptions | undefined): Promise<Result> {
  const api = await startModelApi({ ...LIMITS, charges, burstSeconds: SERVER_BURST_SECONDS, latencyMs });
  let atEnd: Result['atEnd'] | undefined;
  const load = await mixedLoad(
    {
      baseUrl: api.baseUrl,
      ...(options && { limiter: createAccount({ ...LIMITS, ...options }) }),
      durationMs: DURATION_MS,
      concurrency: CONCURRENCY,
      // Alone, some go on trying for another minute.
      end: options ? 'drain' : 'abort',
    },
    () => {
      const { requests, completed, refused, tokensCharged } = api;
      atEnd = { requests: requests.length - refused, completed, refused, tokensCharged };
    },
  );
  await api.stop();
  const { headroom, burstSeconds } = { headroom: 0.9, burstSeconds: 2, ...options };
  return { ...load, burstSeconds: options ? headroom * burstSeconds : SERVER_BURST_SECONDS, atEnd: atEnd! };
}

/** Three SDKs on one account for a minute; all contestants at the same time, each against a server of its own. */
async function mixedLoadTable(charges: Charges): Promise<string> {
  const results = await Promise.all(
    Object.entries(contestants[charges]).map(async ([name, options]) => ({ name, ...(await run(charges, options)) })),
  );
  const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`;
  const minutes = DURATION_MS / 60_000;
  const rows = results.map(({ name, burstSeconds, atEnd, done, lost, unfinished }) => [
    name,
    percent(atEnd.tokensCharged, LIMITS.tokensPerMinute * minutes),
    percent(atEnd.requests, LIMITS.requestsPerMinute * minutes),
    percent(burstSeconds, 60 * minutes),
    String(atEnd.refused),
    String(atEnd.completed),
    String(done),
    String(lost),
    String(unfinished),
  ]);
  const head = `${String(LIMITS.requestsPerMinute)} requests and ${String(LIMITS.tokensPerMinute)} tokens a minute, as ${charges} by each call, ${String(SERVER_BURST_SECONDS)} s of burst; answers after ${String(LATENCY_MS.least)} to ${String(LATENCY_MS.most)} ms`;
  const heads = ['', 'tokens used', 'requests used', 'burst', '429', 'calls answered', 'items done', 'lost', 'unfinished'];
  return `${head}\n\n${table(heads, rows)}`;
}

/** A server that counts what an answer has cost, then one that counts what a request allows. */
export async function* mixedLoadTables(): AsyncGenerator<string> {
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });
  yield mixedLoadTable('reported');
  yield mixedLoadTable('allowed');
}
