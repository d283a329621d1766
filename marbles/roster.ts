import { mergeMap, NEVER, of } from 'rxjs';
import { batch } from '../operators/batch.js';
import type { BatchMapOptions } from '../operators/batch-map.js';
import { batchMap } from '../operators/batch-map.js';
import type { BatcherOptions } from '../operators/create-batcher.js';
import { createBatcher } from '../operators/create-batcher.js';
import type { BatchWork } from '../operators/support/batch-engine.js';
import type { Settled } from '../operators/support/types.js';
import type { LawSubject } from './laws.js';

const echo: BatchWork<number, number> = (items) => of(items);

const mapped = (options: BatchMapOptions<number>) => batchMap(echo, options);

/** A batcher is not an operator: every item of the source is a load. */
const loaded = (options: BatcherOptions<number>, work = echo) => {
  const batcher = createBatcher(work, options);
  return mergeMap((item: number) => batcher.load(item));
};

/** Every operator once, as an ordinary instance: `test/laws.test.ts` holds each against every law. */
export const roster: readonly LawSubject[] = [
  {
    operator: 'batch',
    create: (hooks) => batch<number>({ maxSize: 4, maxWaitMs: 10, ...hooks }),
    itemsOf: (items: number[]) => items,
    holdsAtMost: 4,
    throwing: {
      weigh: (fault) => batch<number>({ weigh: fault }),
      closeWhen: (fault) => batch<number>({ closeWhen: fault }),
      splitItem: (fault) => batch<number>({ maxWeight: 2, weigh: (item) => item, oversize: 'split', splitItem: fault }),
    },
  } satisfies LawSubject<number[]>,
  {
    operator: 'batchMap',
    create: (hooks) => mapped({ maxSize: 4, maxQueued: 8, ...hooks }),
    itemsOf: ({ input }) => [input],
    holdsAtMost: 8,
    throwing: {
      weigh: (fault) => mapped({ weigh: fault }),
      lane: (fault) => mapped({ lane: fault }),
      id: (fault) => mapped({ id: fault }),
      itemDeadlineMs: (fault) => mapped({ itemDeadlineMs: fault }),
    },
    rejectionOf: (settled) => (settled.status === 'rejected' ? settled.reason : undefined),
    abortable: (seen) =>
      batchMap(
        (_items, { signal }) => {
          seen(signal);
          return NEVER;
        },
        { maxSize: 2, attemptTimeoutMs: Infinity },
      ),
  } satisfies LawSubject<Settled<number, number>>,
  {
    operator: 'createBatcher',
    create: (hooks) => loaded({ maxSize: 4, maxQueued: 8, ...hooks }),
    itemsOf: (item) => [item],
    holdsAtMost: 8,
    throwing: {
      weigh: (fault) => loaded({ weigh: fault }),
      lane: (fault) => loaded({ lane: fault }),
      id: (fault) => loaded({ id: fault }),
      itemDeadlineMs: (fault) => loaded({ itemDeadlineMs: fault }),
      dedupe: (fault) => loaded({ dedupe: fault }),
      window: (fault) => loaded({ window: fault }),
    },
    abortable: (seen) =>
      loaded({ maxSize: 2, attemptTimeoutMs: Infinity }, (_items, { signal }) => {
        seen(signal);
        return NEVER;
      }),
  } satisfies LawSubject<number>,
];
