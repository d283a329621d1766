// What a hostile reading of the model caller and the metrics has found, once each.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { concat, firstValueFrom, lastValueFrom, map, mergeMap, NEVER, Observable, of, throwError, timer, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { WorkResult } from '../../operators/index.js';
import { hedging } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { AttemptStats } from '../../src/metrics/attempt-stats.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import { createMetrics } from '../../src/metrics/create-metrics.js';
import type { ModelCallerOptions, ModelClient, ModelContext } from '../../src/pipelines/create-model-caller.js';
import { callAll, chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { accountedCaller } from '../support/accounted-caller.js';

const status = (code: number): Error => Object.assign(new Error(`status ${code}`), { status: code });
const after = (ms: number, answer: string): Observable<string> => timer(ms).pipe(map(() => answer));
const failsAfter = (ms: number, error: Error): Observable<never> => timer(ms).pipe(mergeMap(() => throwError(() => error)));

type Options = Partial<ModelCallerOptions<string, string, string> & Pick<ModelClient<string, string, string>, 'stream' | 'usage'>>;

/** A caller over a function, when it sent what, and its records in short. */
function over(
  now: () => number,
  call: (request: string, context: ModelContext) => WorkResult<string>,
  { stream, usage, ...options }: Options = {},
) {
  const log: string[] = [];
  const records: CallRecord[] = [];
  const models = accountedCaller<string, string, string>({
    call: {
      send: (request, context) => {
        log.push(`${request} at ${now()}`);
        return call(request, context);
      },
      ...(stream && { stream }),
      ...(usage && { usage }),
    },
    retry: { delayMs: 100, jitter: 'none' },
    onRecord: (record) => records.push(record),
    ...options,
  });
  const failed = { error: (error: unknown) => log.push(`${(error as Error).message} at ${now()}`) };
  return { models, log, records, ends: () => records.map((record) => `${record.name} ${record.status}`), failed };
}

describe('a hedged call', () => {
  it('sends no other call of its group when one fails', () => {
    virtualTime(({ flush, now }) => {
      const { models, log, ends, failed } = over(
        now,
        (request) => (request === 'bad' ? failsAfter(50, status(400)) : after(1000, request)),
        {
          concurrency: 2,
          hedge: hedging({ delayMs: 500 }),
        },
      );
      callAll(models, { a: 'a', b: 'bad', c: 'c', d: 'd' }, { lane: 'user' }).subscribe(failed);
      flush();
      expect(log).toEqual(['a at 0', 'bad at 0', 'status 400 at 50']);
      expect(ends()).toEqual(['b error', 'a cancelled']);
    });
  });

  it('is not made again after 400, and after 503 only with the pause of a retry', () => {
    virtualTime(({ flush, now }) => {
      const refused = over(now, () => failsAfter(10, status(400)), { hedge: hedging({ delayMs: 500 }) });
      refused.models.call('a', { lane: 'user' }).subscribe(refused.failed);
      flush();
      expect(refused.log).toEqual(['a at 0', 'status 400 at 10']);
      const down = over(now, () => failsAfter(10, status(503)), { hedge: hedging({ delayMs: 500 }) });
      down.models.call('b', { lane: 'user' }).subscribe(down.failed);
      flush();
      expect(down.log).toEqual(['b at 10', 'b at 120', 'b at 330', 'status 503 at 340']);
    });
  });

  it('waits for the other attempt when one breaks', () => {
    virtualTime(({ flush, now }) => {
      let sent = 0;
      const { models, log, records } = over(now, () => (++sent === 1 ? failsAfter(80, status(503)) : after(50, 'second')), {
        hedge: hedging({ delayMs: 50 }),
      });
      models.call('a', { lane: 'user' }).subscribe((answer) => log.push(`${answer} at ${now()}`));
      flush();
      expect(log).toEqual(['a at 0', 'a at 50', 'second at 100']);
      expect(records.map(({ attempt, errorCode }) => [attempt, errorCode])).toEqual([
        [1, 'HTTP_503'],
        [2, null],
      ]);
    });
  });

  it('tells of its slower attempt as an attempt, not as a call that was cancelled', () => {
    virtualTime(({ flush, now }) => {
      const types: string[] = [];
      const { models } = over(now, () => after(100, 'a'), { hedge: hedging({ delayMs: 50 }), onEvent: ({ type }) => types.push(type) });
      models.call('a', { lane: 'user' }).subscribe();
      flush();
      expect(types).toEqual(['accepted', 'attemptStarted', 'hedged', 'attemptStarted', 'attemptEnded', 'attemptEnded', 'settled']);
    });
  });

  it('names lanes that there are', () => {
    const call = () => of('a');
    expect(() => createModelCaller({ call, hedge: hedging({ lanes: ['P9'] }) })).toThrow(
      '`hedge.lanes` to be a list of known lanes (user, normal, background)',
    );
  });
});

describe('a call that a listener ends when its attempt is told', () => {
  it('is not sent, has its record, and holds nothing', () => {
    virtualTime(({ flush, now }) => {
      const { models, log, ends, failed } = over(now, () => NEVER, {
        onEvent: ({ type }) => {
          if (type === 'attemptStarted') models.close();
        },
      });
      models.call('a').subscribe(failed);
      flush();
      expect([log, ends()]).toEqual([['createModelCaller: closed; it accepts no more work at 0'], ['call cancelled']]);
      expect(models.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });
});

describe('an answer', () => {
  it('is the last value of an Observable, parsed once; taking it is no cancellation', async () => {
    const records: CallRecord[] = [];
    let parsed = 0;
    const parse = (n: number): number => n * ++parsed;
    const models = createModelCaller({
      call: (_request: string) => of(1, 2, 3),
      parse,
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    expect(await lastValueFrom(models.call('a').pipe(toArray()))).toEqual([3]);
    expect(await firstValueFrom(models.call('b'))).toBe(6);
    expect(records.map((record) => record.status)).toEqual(['success', 'success']);
  });

  it('that comes at once is the answer itself, be it a text or a list', async () => {
    const records: CallRecord[] = [];
    const models = createModelCaller({
      call: (request: string) => [request, request],
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    expect(await models.callAsync('a')).toEqual(['a', 'a']);
    expect(await createModelCaller({ call: (request: string) => `${request}!` }).callAsync('a')).toBe('a!');
    expect(records).toMatchObject([{ status: 'success' }]);
  });
});

describe('a record', () => {
  it('leaves out tokens that cannot be, and keeps what was said before', () => {
    const records: CallRecord[] = [];
    const says: readonly unknown[] = [
      { inputTokens: -5, outputTokens: NaN },
      { inputTokens: '12', outputTokens: Infinity },
      { inputTokens: 7 },
      { inputTokens: undefined, outputTokens: 3 },
    ];
    const models = createModelCaller<string, string, number>({
      call: { send: () => of('a'), stream: () => of(0, 1, 2, 3), usage: (chunk) => says[chunk as number] as never },
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    models.stream('a').subscribe();
    expect(records).toMatchObject([{ status: 'success', promptTokens: 7, completionTokens: 3 }]);
  });

  it('has a model, or there is no call', async () => {
    const models = createModelCaller({ call: () => of('a'), model: (() => undefined) as never });
    await expect(models.callAsync('a')).rejects.toThrow('`model` must return a non-empty string');
  });

  it('says `timeout` when the time of the whole group is over', () => {
    virtualTime(({ flush, now }) => {
      const { models, records } = over(now, () => NEVER);
      callAll(models, { a: 'a', b: 'b' }, { deadlineMs: 300 }).subscribe({ error: () => undefined });
      flush();
      expect(records.map((record) => [record.status, record.errorCode])).toEqual([
        ['timeout', 'FLOW_DEADLINE'],
        ['timeout', 'FLOW_DEADLINE'],
      ]);
    });
  });
});

describe('an error', () => {
  it('names the caller, and not what it is made of', () => {
    virtualTime(({ flush, now }) => {
      const cut = over(now, () => NEVER, { timeoutMs: 20, retry: false });
      cut.models.call('a').subscribe(cut.failed);
      const late = over(now, () => NEVER, { deadlineMs: 30 });
      late.models.call('b').subscribe(late.failed);
      flush();
      expect(cut.log[1]).toBe('createModelCaller: the attempt took longer than 20 ms and was aborted at 20');
      expect(late.log[1]).toBe('createModelCaller: not settled within 30 ms (30 ms elapsed) at 30');
    });
  });

  it('never shows the key of an endpoint that was given to the caller itself', () => {
    const make = (): unknown => createModelCaller({ model: 'small', apiKey: 'sk-secret' } as never);
    expect(make).toThrow('createModelCaller: unknown option `apiKey`. Use `call: chatCompletions({ … })`.');
    expect(make).not.toThrow('sk-secret');
  });

  it('of a group names its options', () => {
    const models = createModelCaller({ call: () => of('a') });
    expect(() => callAll(models, {}, null as never)).toThrow('callAll: expected `options` to be an object, got `null`');
  });
});

describe('a stream', () => {
  it('whose client throws, whose usage throws, or that fails later, has one record, and frees its slot', () => {
    const fault = new Error('fault');
    const throws = (): never => {
      throw fault;
    };
    const streams: readonly Options[] = [
      { stream: throws },
      { stream: () => of('a'), usage: throws },
      {
        stream: () =>
          concat(
            of('a'),
            throwError(() => fault),
          ),
      },
    ];
    for (const options of streams) {
      const { models, records, log, failed } = over(Date.now, () => of('a'), { ...options, retry: false, concurrency: 1 });
      models.stream('a').subscribe(failed);
      expect([records.length, log.length, models.snapshot().executing]).toEqual([1, 1, 0]);
    }
  });

  it('has one timer however fast its chunks come, and none when it is over', () => {
    virtualTime(({ advance, pending, now, scheduler }) => {
      const chunks = new Observable<string>((subscriber) => {
        for (let n = 0; n < 100; n++) subscriber.next(String(n));
      });
      const { models } = over(now, () => NEVER, { stream: () => chunks, timeoutMs: 100, scheduler });
      const reading = models.stream('a').subscribe();
      advance(50);
      expect(pending()).toBe(1);
      reading.unsubscribe();
      expect(pending()).toBe(0);
    });
  });
});

describe('a client that does not look at the signal', () => {
  it('costs none, and has its record when it is left', () => {
    const made: unknown[] = [];
    const { AbortController } = globalThis;
    globalThis.AbortController = class extends AbortController {
      constructor() {
        super();
        made.push(this);
      }
    };
    try {
      const { models, ends } = over(Date.now, (request) => (request === 'left' ? NEVER : of('a')));
      models.call('a').subscribe();
      models.call('left').subscribe().unsubscribe();
      expect([made.length, ends()]).toEqual([0, ['call success', 'call cancelled']]);
    } finally {
      globalThis.AbortController = AbortController;
    }
  });
});

describe('metrics', () => {
  it('count an attempt whose times are none', () => {
    const stats = new AttemptStats(5);
    stats.add({ code: 'HTTP_500' }, 1, NaN);
    stats.add('ok', 1, 5);
    expect(stats.snapshot()).toMatchObject({ attempts: 2, failures: 1, failureRate: 0.5, latencyMs: { count: 1 } });
  });

  it('count what has a text for its name as `other`', () => {
    const metrics = createMetrics();
    const models = createModelCaller({
      call: () => of('a'),
      model: (request: string) => request,
      onRecord: metrics.record,
      limiter: createAccount({ concurrency: 4 }),
    });
    models.call('x'.repeat(10_000)).subscribe();
    models.call('small').subscribe();
    expect(Object.keys(metrics.snapshot().models)).toEqual(['other', 'small']);
  });
});

describe('the built-in client', () => {
  const open: (() => void)[] = [];
  afterEach(() => {
    for (const close of open.splice(0)) close();
  });

  /** A caller of a server on this machine that answers everything with one body. */
  async function served(body: string) {
    const bodies: Record<string, unknown>[] = [];
    const server = createServer((request, response) => {
      let text = '';
      request.on('data', (part: Buffer) => (text += part.toString()));
      request.on('end', () => {
        bodies.push(JSON.parse(text) as Record<string, unknown>);
        response.end(body);
      });
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    open.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const records: CallRecord[] = [];
    const retry = { delayMs: 1, maxAttempts: 2 };
    const onRecord = (record: CallRecord): number => records.push(record);
    return {
      models: createModelCaller({
        call: chatCompletions({ baseUrl: `http://127.0.0.1:${port}`, model: 'small' }),
        retry,
        onRecord,
        limiter: createAccount({ concurrency: 4 }),
      }),
      records,
      bodies,
    };
  }
  const hello = { messages: [{ role: 'user', content: 'hello' }] };
  const codes = (records: readonly CallRecord[]) => records.map((record) => record.errorCode);

  it('reads an error after a status of success, with the status that some put there', async () => {
    const { models, records } = await served('{"error":{"message":"overloaded","code":502}}');
    await expect(models.callAsync(hello)).rejects.toThrow('overloaded');
    expect(codes(records)).toEqual(['HTTP_502', 'HTTP_502']);
  });

  it('refuses an answer that is no object', async () => {
    const { models, records } = await served('null');
    await expect(models.callAsync(hello)).rejects.toThrow('the answer is no JSON object');
    expect(codes(records)).toEqual(['PARSE_FAILED', 'PARSE_FAILED']);
  });

  it('reads an error in a stream that is but a text, and a part that is none', async () => {
    const text = await served('data: {"error":"boom"}\n\n');
    await expect(lastValueFrom(text.models.stream(hello))).rejects.toThrow('boom');
    const bare = await served('data: {"choices":null}\n\ndata: [DONE]\n\n');
    expect(await lastValueFrom(bare.models.stream(hello))).toEqual({ choices: null });
    const nothing = await served('data: null\n\n');
    await expect(lastValueFrom(nothing.models.stream(hello))).rejects.toThrow('the answer is no JSON object');
  });

  it('says what is wrong with a request that has no messages, and sends the model of the caller when the request has none', async () => {
    const { models, bodies } = await served('{"choices":[]}');
    for (const wrong of ['hello', null, { prompt: 'hello' }])
      await expect(models.callAsync(wrong as never)).rejects.toThrow('expected `request.messages` to be an array of messages');
    await models.callAsync({ ...hello, model: undefined } as never);
    expect(bodies).toMatchObject([{ model: 'small', stream: false }]);
  });
});
