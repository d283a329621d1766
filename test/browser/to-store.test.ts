import { animationFrameScheduler, defer, Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { coalesce, toStore } from '../../operators/index.js';

const frame = () => new Promise(requestAnimationFrame);

describe('toStore in the browser', () => {
  it.each([{ pace: 'frame', maxWaitMs: 10_000 } as const, { scheduler: animationFrameScheduler }])(
    'changes once a frame, to the newest value, with %o',
    async (options) => {
      const source = new Subject<number>();
      const store = toStore(source, 0, options);
      const seen: number[] = [];
      const leave = store.subscribe(() => seen.push(store.getSnapshot()));
      for (const round of [10, 20, 30]) {
        const before = store.getSnapshot();
        for (let n = 1; n <= 3; n++) source.next(round + n);
        expect(store.getSnapshot()).toBe(before);
        await frame();
        await frame();
      }
      leave();
      expect(seen).toEqual([13, 23, 33]);
    },
  );

  it('shows what waits at the end, without a frame', () => {
    const source = new Subject<number>();
    const store = toStore(source, 0, { pace: 'frame' });
    const seen: number[] = [];
    store.subscribe(() => seen.push(store.getSnapshot()));
    source.next(1);
    expect(seen).toEqual([]);
    source.complete();
    expect(seen).toEqual([1]);
  });

  it('asks for no frame after the last listener has left', async () => {
    const source = new Subject<number>();
    const store = toStore(source, 0, { pace: 'frame' });
    const seen: number[] = [];
    const leave = store.subscribe(() => seen.push(store.getSnapshot()));
    source.next(1);
    leave();
    await frame();
    await frame();
    expect([seen, store.getSnapshot(), source.observed]).toEqual([[], 0, false]);
  });

  it('behind coalesce costs one frame, not two, and changes once in it', async () => {
    const source = new Subject<string>();
    // Frames alone: on a busy machine two of them are further apart than the usual time.
    const paced = { pace: 'frame', maxWaitMs: 10_000 } as const;
    const store = toStore(source.pipe(coalesce({ merge: (one: string, other) => one + other, ...paced })), '', paced);
    const seen: string[] = [];
    const leave = store.subscribe(() => seen.push(store.getSnapshot()));
    for (const word of ['to', 'be', 'or']) {
      await frame();
      for (const letter of word) source.next(letter);
      // Asked for after the one of `coalesce`: it comes last in the very next frame.
      await frame();
      expect(seen.at(-1)).toBe(word);
    }
    leave();
    expect(seen).toEqual(['to', 'be', 'or']);
  });

  it('makes one run of mount, unmount and mount with keepAliveMs, and aborts it when no subscriber comes back', async () => {
    const source = new Subject<number>();
    let runs = 0;
    const store = toStore(
      defer(() => {
        runs++;
        return source;
      }),
      0,
      { pace: 'frame', keepAliveMs: 500 },
    );
    store.subscribe(() => undefined)();
    const leave = store.subscribe(() => undefined);
    source.next(1);
    leave();
    expect([runs, store.status]).toEqual([1, 'live']);
    // A page that is busy may have its first frame late.
    await vi.waitFor(
      () => {
        expect(store.status).toBe('idle');
      },
      { timeout: 5000 },
    );
    expect([runs, source.observed, store.getSnapshot()]).toEqual([1, false, 1]);
  });
});
