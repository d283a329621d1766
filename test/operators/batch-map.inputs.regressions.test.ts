import type { Observable } from 'rxjs';
import { concat, NEVER, of, Subject, throwError } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { BatchMapOptions, BatchWork, Settled } from '../../operators/index.js';
import { batchMap, batchMapFrom, classifyError, createBatcher, FlowConfigError, orderPerKey, robust } from '../../operators/index.js';

const repaired = { classify: classifyError, repair: robust() };

const SECRET = 'sk-very-secret';
const echo: BatchWork<string, string> = (items) => of(items);
const broken = new Error('the work broke');
const overloaded = Object.assign(new Error('overloaded'), { status: 503 });

/** One operator's whole life in virtual time. */
function settle<T, R>(items: readonly T[], work: BatchWork<T, R>, options: BatchMapOptions<T>) {
  return virtualTime(({ flush }) => watch(of(...items).pipe(batchMap(work, { ...repaired, ...options })), flush));
}

function watch<T, R>(result: Observable<Settled<T, R>>, flush: () => void) {
  const settled: Settled<T, R>[] = [];
  const errors: unknown[] = [];
  let completed = false;
  result.subscribe({
    next: (one) => settled.push(one),
    error: (error: unknown) => errors.push(error),
    complete: () => {
      completed = true;
    },
  });
  flush();
  return { settled, errors, completed };
}

const reasons = (settled: readonly Settled<unknown, unknown>[]): unknown[] =>
  settled.map((one) => (one.status === 'rejected' ? one.reason : undefined));

describe('a retry', () => {
  it('is made when no other call is under way and there is no budget to keep', () => {
    let calls = 0;
    const work: BatchWork<string, string> = (items) => (calls++ === 0 ? throwError(() => overloaded) : of(items));
    const { settled } = settle(['a'], work, { random: () => 1 });
    expect(settled).toMatchObject([{ status: 'fulfilled', value: 'a', attempts: 2 }]);
  });

  it('rejects its items, and loses none, when random throws', () => {
    const cause = new Error('no entropy');
    const random = (): number => {
      throw cause;
    };
    const { settled, completed } = settle(['a'], () => throwError(() => overloaded), { random });
    expect(reasons(settled)).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'random', cause }]);
    expect(completed).toBe(true);
  });

  it.each([-1, 2, NaN, '0.5'])('rejects its items when random answers %o', (answer) => {
    const { settled } = settle(['a'], () => throwError(() => overloaded), { random: () => answer as number });
    expect(reasons(settled)).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'random' }]);
  });
});

describe('a callback that answers text where a number is due', () => {
  it('rejects the item when it is weigh, without showing the text', () => {
    const { settled } = settle(['a', 'b'], echo, { weigh: (item) => (item === 'a' ? (SECRET as never) : 1) });
    const [rejected] = settled.filter(({ input }) => input === 'a');
    expect(rejected).toMatchObject({ reason: { code: 'FLOW_CALLBACK', callback: 'weigh' } });
    expect(String((rejected as { reason: unknown }).reason)).not.toContain(SECRET);
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('rejects an item whose weight is a number in quotes', () => {
    expect(reasons(settle(['a'], echo, { weigh: () => '5' as never }).settled)).toMatchObject([{ code: 'FLOW_CALLBACK' }]);
  });

  it('rejects the item when it is deadlineMs', () => {
    const { settled } = settle(['a'], echo, { deadlineMs: () => '500' as never });
    expect(reasons(settled)).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'deadlineMs' }]);
  });

  it('errors the stream when it is window', () => {
    const { errors } = virtualTime(({ flush }) =>
      watch(concat(of('a'), NEVER).pipe(batchMap(echo, { window: () => SECRET as never })), flush),
    );
    expect(errors).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'window' }]);
    expect(String(errors[0])).not.toContain(SECRET);
  });
});

describe('a classifier whose answer is nonsense in part', () => {
  it.each([-1, NaN, Infinity, 'soon'])('retryAfterMs %o is ignored', (retryAfterMs) => {
    let calls = 0;
    const work: BatchWork<string, string> = (items) => (calls++ === 0 ? throwError(() => broken) : of(items));
    const { settled } = settle(['a'], work, { classify: () => ({ class: 'throttled', retryAfterMs: retryAfterMs as number }) });
    // Sent twice: a refusal takes no attempt.
    expect(settled).toMatchObject([{ status: 'fulfilled', attempts: 1 }]);
    expect(calls).toBe(2);
  });

  it.each([3, 'a', {}])('blame %o is ignored', (blame) => {
    const { settled } = settle(['a', 'b'], () => throwError(() => broken), {
      classify: () => ({ class: 'itemFault', blame: blame as never }),
    });
    expect(reasons(settled)).toEqual([broken, broken]);
  });
});

describe('a wrong option', () => {
  it('is refused when the limiter is null', () => {
    expect(() => batchMap(echo, { limiter: null as never })).toThrow(FlowConfigError);
  });

  it('is refused when the scheduler is none, before anything is subscribed to', () => {
    expect(() => batchMap(echo, { scheduler: 5 as never })).toThrow('batchMap: expected `scheduler` to be an rxjs scheduler');
  });

  it('is named by batchMapFrom although it is not even an object', () => {
    expect(() => batchMapFrom(['a'], echo, 5 as never)).toThrow('batchMapFrom: expected `options` to be an object');
    expect(() => batchMapFrom(['a'], echo, null as never)).toThrow('batchMapFrom: expected `options` to be an object');
  });
});

describe('a changing concurrency that is out of range', () => {
  const wanted = { code: 'FLOW_CONFIG_INVALID', option: 'concurrency', got: 0 };

  it('errors batchMapFrom, in its own name', () => {
    const { errors } = virtualTime(({ flush }) =>
      watch(
        batchMapFrom(['a'], () => NEVER, { concurrency: of(0) }),
        flush,
      ),
    );
    expect(errors).toMatchObject([{ ...wanted, operator: 'batchMapFrom' }]);
  });

  it('rejects every load of createBatcher, in its own name', () => {
    const concurrency = new Subject<number>();
    const error = virtualTime(({ advance }) => {
      let seen: unknown;
      createBatcher<string, string>(() => NEVER, { concurrency })
        .load('a')
        .subscribe({
          error: (reason: unknown) => {
            seen = reason;
          },
        });
      advance(1);
      concurrency.next(0);
      return seen;
    });
    expect(error).toMatchObject({ ...wanted, operator: 'createBatcher' });
  });
});

describe('a signal that several loads share', () => {
  it('starts no call for a load that is about to leave when it frees the slot of another', () => {
    const sent: string[][] = [];
    virtualTime(({ flush }) => {
      const work: BatchWork<string, string> = (items) => {
        sent.push([...items]);
        return NEVER;
      };
      const batcher = createBatcher(work, { maxSize: 1, concurrency: 1 });
      const stop = new AbortController();
      for (const item of ['a', 'b', 'c']) batcher.load(item, { signal: stop.signal }).subscribe({ error: () => undefined });
      stop.abort();
      flush();
    });
    expect(sent).toEqual([['a']]);
  });

  it('gets one listener, so that Node does not warn of a leak', () => {
    const stop = new AbortController();
    const added = vi.spyOn(stop.signal, 'addEventListener');
    const removed = vi.spyOn(stop.signal, 'removeEventListener');
    virtualTime(({ flush }) => {
      const batcher = createBatcher(echo, { maxSize: 100 });
      for (let i = 0; i < 50; i++) batcher.load(String(i), { signal: stop.signal }).subscribe();
      flush();
    });
    expect(added).toHaveBeenCalledTimes(1);
    expect(removed).toHaveBeenCalledTimes(1);
  });
});

describe('a load', () => {
  it('whose signal aborts while it is being accepted is never sent', () => {
    const sent: string[][] = [];
    virtualTime(({ flush }) => {
      const stop = new AbortController();
      const work: BatchWork<string, string> = (items) => {
        sent.push([...items]);
        return of(items);
      };
      const weigh = (): number => {
        stop.abort();
        return 1;
      };
      const batcher = createBatcher(work, { weigh });
      batcher.load('a', { signal: stop.signal }).subscribe({ error: () => undefined });
      flush();
      expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    });
    expect(sent).toEqual([]);
  });
});

it('a load that its own `key` makes leave keeps no later load of that key waiting', async () => {
  const controller = new AbortController();
  const batcher = createBatcher(echo, {
    order: orderPerKey((item) => {
      if (item === 'a') controller.abort(new Error('left'));
      return 'one key';
    }),
  });
  await expect(batcher.loadAsync('a', { signal: controller.signal })).rejects.toThrow('left');
  await expect(batcher.loadAsync('b')).resolves.toBe('b');
  expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0, heldBack: 0 });
});
