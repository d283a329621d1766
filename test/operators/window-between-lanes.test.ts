import { describe, expect, it } from 'vitest';
import { createBatcher } from '../../operators/create-batcher.js';
import { lanes } from '../../operators/lanes.js';

// A lane with a window of its own is due, while the operator's window is asked for the next one, and does what it likes.

const WAITS = [undefined, 0, 5] as const;

const DEEDS = {
  throws: () => {
    throw new Error('no window');
  },
  'answers nonsense': () => Number.NaN,
  'closes it': ({ close }: Reach) => {
    close();
    return 0;
  },
  'lets the first go': ({ leave }: Reach) => {
    leave('a');
    return 0;
  },
  'lets the second go': ({ leave }: Reach) => {
    leave('b');
    return 0;
  },
  'lets all go': ({ leave }: Reach) => {
    leave('a');
    leave('b');
    return 0;
  },
  'sends one more': ({ load }: Reach) => {
    load();
    return 0;
  },
  'flushes it': ({ flush }: Reach) => {
    flush();
    return 3;
  },
} as const;

interface Reach {
  readonly close: () => void;
  readonly leave: (lane: 'a' | 'b') => void;
  readonly load: () => void;
  readonly flush: () => void;
}

const cases = Object.entries(DEEDS).flatMap(([deed, act]) =>
  WAITS.flatMap((a) =>
    WAITS.flatMap((b) =>
      (['ab', 'ba'] as const).flatMap((order) => [false, true].map((isWatched) => ({ deed, act, a, b, order, isWatched }))),
    ),
  ),
);

describe('a window that is asked between two lanes', () => {
  it.each(cases)('$deed: lanes wait $a and $b ms, $order, watched: $isWatched', async ({ act, a, b, order, isWatched }) => {
    const signals = { a: new AbortController(), b: new AbortController() };
    const asked: Promise<string>[] = [];
    const sizes: number[] = [];
    const formed: number[] = [];
    let more = 0;
    const work = (texts: readonly string[]): Promise<string[]> => {
      sizes.push(texts.length);
      return Promise.resolve(texts.map((text) => text.toUpperCase()));
    };
    const batcher = createBatcher(work, {
      ...(isWatched && {
        onEvent: (event) => {
          if (event.type === 'batchFormed') formed.push(event.size);
        },
      }),
      maxSize: 10,
      queue: lanes(
        [
          { name: 'a', ...(a !== undefined && { maxWaitMs: a }) },
          { name: 'b', ...(b !== undefined && { maxWaitMs: b }) },
        ],
        { by: (text: string) => text[0] as 'a' | 'b' },
      ),
      window: () =>
        act({
          close: () => {
            batcher.close();
          },
          leave: (lane) => {
            signals[lane].abort();
          },
          load: () => {
            if (more++ === 0) asked.push(batcher.loadAsync('a more'));
          },
          flush: () => {
            batcher.flush();
          },
        }),
    });
    for (const lane of order) asked.push(batcher.loadAsync(`${lane} one`, { signal: signals[lane as 'a' | 'b'].signal }));
    const settled = await Promise.allSettled(asked);
    await batcher.drain();
    expect(settled.length).toBeGreaterThanOrEqual(2);
    for (const result of settled) if (result.status === 'fulfilled') expect(result.value).toMatch(/^[AB] (ONE|MORE)$/);
    expect(sizes).not.toContain(0);
    if (isWatched) expect(formed).toEqual(sizes);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0, heldBack: 0 });
  });
});
