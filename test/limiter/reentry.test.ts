import { config, NEVER, Subject } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Lease, Limiter, LimiterJob } from '../../operators/index.js';
import { childOf, createLimiter, fromHeaders, lanes, perMinute } from '../../operators/index.js';

type Place = FlowEvent['type'] | 'onRelease' | 'watch' | 'lease' | 'refused';

/** What a listener does, once. */
const deeds: Readonly<Record<string, (world: World) => void>> = {
  sends: (world) => {
    for (let i = 0; i < 3; i++) world.ask();
  },
  'sends by promise': (world) => {
    world.askAsync();
  },
  leaves: (world) => {
    world.leaveOne();
  },
  'leaves all': (world) => {
    while (world.leaveOne());
  },
  closes: ({ limiter }) => {
    limiter.close();
  },
  'closes the account': ({ account }) => {
    account.close();
  },
  drains: ({ limiter }) => {
    void limiter.drain();
  },
  clears: ({ limiter }) => {
    limiter.clear();
  },
  'clears the account': ({ account }) => {
    account.clear();
  },
  'pauses and resumes': ({ limiter }) => {
    limiter.pause();
    limiter.resume();
  },
  'lowers the limit': ({ limiter }) => {
    limiter.setLimits({ concurrency: 1 });
  },
  'raises the limit': ({ account, limiter }) => {
    limiter.setLimits({ concurrency: 4 });
    account.setLimits({ concurrency: 5 });
  },
  'stops the rate for a while': ({ limiter }) => {
    limiter.setLimits({ rates: [perMinute('requests', 0)] });
    limiter.setLimits({ rates: [perMinute('requests', 6000)] });
  },
  penalizes: ({ limiter }) => {
    limiter.penalize(30);
  },
  'ends the pause': ({ limiter }) => {
    limiter.penalize(0);
  },
  releases: (world) => {
    world.releaseOne();
  },
  'tries for a permit': (world) => {
    world.keep(world.limiter.tryAcquire());
  },
  throws: () => {
    throw new Error('a fault of the listener');
  },
};

class World {
  readonly account: Limiter;
  readonly limiter: Limiter;
  readonly #place: Place;
  readonly #deed: (world: World) => void;
  #done = false;
  asked = 0;
  granted = 0;
  refused = 0;
  left = 0;
  most = 0;
  allowed = 3;
  readonly faults: string[] = [];
  readonly #held: Lease[] = [];
  readonly #waiting: (() => boolean)[] = [];

  constructor(kind: 'limiter' | 'child', place: Place, deed: (world: World) => void) {
    this.#place = place;
    this.#deed = deed;
    const onEvent = (event: FlowEvent): void => {
      this.at(event.type);
    };
    const rules = {
      maxQueued: 4,
      overflow: 'dropOldest',
      rates: [perMinute('requests', 6000), perMinute('tokens', 60_000)],
      headroom: 1,
      onEvent,
    } as const;
    const queue = lanes([{ name: 'chat' }, { name: 'batch' }]);
    this.account = createLimiter(kind === 'child' ? { concurrency: 3, queue } : { concurrency: 2, queue, ...rules });
    this.limiter = kind === 'child' ? childOf(this.account, { concurrency: 2, ...rules }) : this.account;
    this.limiter.onRelease(() => {
      this.at('onRelease');
    });
    this.limiter.watch(() => {
      this.at('watch');
    });
  }

  /** Runs the deed once, at its place: one of the callbacks. */
  at(place: Place): void {
    if (place !== this.#place || this.#done) return;
    this.#done = true;
    this.#deed(this);
  }

  ask(job: LimiterJob = {}): void {
    this.asked++;
    let state: 'waiting' | 'settled' | 'left' = 'waiting';
    const settle = (): void => {
      if (state !== 'waiting') this.faults.push(`settled when ${state}`);
      state = 'settled';
    };
    const subscription = this.limiter.acquire(job).subscribe({
      next: (lease) => {
        settle();
        this.granted++;
        this.keep(lease);
        this.at('lease');
      },
      error: () => {
        settle();
        this.refused++;
        this.at('refused');
      },
    });
    this.#waiting.push(() => {
      if (state !== 'waiting') return false;
      state = 'left';
      this.left++;
      subscription.unsubscribe();
      return true;
    });
  }

  askAsync(): void {
    this.limiter.runAsync(() => 'over at once').catch(() => undefined);
  }

  keep(lease: Lease | undefined): void {
    if (lease) this.#held.push(lease);
    this.most = Math.max(this.most, this.#held.length);
  }

  releaseOne(): boolean {
    const lease = this.#held.shift();
    lease?.release();
    return lease !== undefined;
  }

  leaveOne(): boolean {
    return this.#waiting.some((leave) => leave());
  }
}

const places: readonly Place[] = [
  'throttled',
  'limitChanged',
  'dropped',
  'usageClamped',
  'drained',
  'onRelease',
  'watch',
  'lease',
  'refused',
];

// What a listener throws is reported, and changes nothing.
beforeAll(() => {
  config.onUnhandledError = () => undefined;
});
afterAll(() => {
  config.onUnhandledError = null;
});

describe.each(['limiter', 'child'] as const)('a listener of a %s', (kind) => {
  describe.each(places)('at %s', (place) => {
    it.each(Object.entries(deeds))('that %s loses no permit and settles no job twice', (name, deed) => {
      // What a consumer throws is RxJS's own business.
      if (name === 'throws' && (place === 'lease' || place === 'refused')) return;
      virtualTime(({ advance, flush }) => {
        const world = new World(kind, place, deed);
        const { account, limiter } = world;
        for (let i = 0; i < 4; i++) world.ask({ lane: i % 2 === 0 ? 'chat' : 'batch' });
        world.ask({ deadlineMs: 5 });
        limiter.penalize(10);
        limiter.setLimits({ concurrency: 2 });
        for (let i = 0; i < 6; i++) world.ask();
        limiter.tryAcquire()?.settle({ inputTokens: 1e12 });
        const extra = limiter.tryAcquire();
        extra?.settle({ inputTokens: 1e12 });
        extra?.release();
        advance(20);
        world.releaseOne();
        limiter.setLimits({ concurrency: 3 });
        advance(5000);
        while (world.releaseOne()) advance(200);
        limiter.clear();
        void limiter.drain();
        flush();
        while (world.releaseOne()) flush();
        expect(world.faults).toEqual([]);
        expect(world.granted + world.refused + world.left).toBe(world.asked);
        expect(world.most).toBeLessThanOrEqual(5);
        expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
        expect(account.snapshot()).toMatchObject({ executing: 0, queued: 0 });
        account.close();
        flush();
      });
    });
  });
});

describe('close', () => {
  it('refuses waiting jobs, and leaves adapter-like leases alone until they are released: nothing hangs', async () => {
    const account = createLimiter({ concurrency: 2, learn: fromHeaders({ learn: false }) });
    const child = childOf(account);
    const stream = new Subject<string>();
    const read: string[] = [];
    // What an adapter does: a permit of its own for as long as the answer flows.
    const leases = [await account.acquireAsync(), await child.acquireAsync()];
    stream.subscribe({
      next: (chunk) => read.push(chunk),
      complete: () => {
        for (const lease of leases) lease.release();
      },
    });
    const waiting = [account.acquireAsync(), child.runAsync(() => 5), account.acquireAsync({ signal: new AbortController().signal })];
    stream.next('a');
    account.close();
    expect(await Promise.allSettled(waiting)).toMatchObject(waiting.map(() => ({ reason: { code: 'FLOW_CLOSED' } })));
    await expect(account.acquireAsync()).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    expect([account.tryAcquire(), child.tryAcquire()]).toEqual([undefined, undefined]);
    expect(account.executing).toBe(2);
    expect(await account.drain()).toEqual({ done: 0, aborted: 2, dropped: 3 });
    stream.next('b');
    const idle = account.whenIdle();
    leases[0]?.settle({ inputTokens: 5 });
    leases[0]?.observe({ status: 429, headers: { 'retry-after': '9' } });
    stream.complete();
    await idle;
    expect([read, account.executing, child.executing]).toEqual([['a', 'b'], 0, 0]);
  });

  it('ends the work of run at once, and its permit comes back when its promise has settled', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const seen: string[] = [];
      limiter.run(() => NEVER).subscribe({ error: (error: unknown) => seen.push((error as { code: string }).code) });
      limiter
        .run(({ signal }) => {
          signal.addEventListener('abort', () => seen.push('aborted'));
          return new Promise(() => undefined);
        })
        .subscribe({ error: (error: unknown) => seen.push((error as { code: string }).code) });
      limiter.close();
      flush();
      expect([...seen].sort()).toEqual(['FLOW_CLOSED', 'FLOW_CLOSED', 'aborted']);
      expect(limiter.executing).toBe(0);
    });
  });
});
