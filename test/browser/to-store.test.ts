import { animationFrameScheduler, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { toStore } from '../today.js';

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
});
