import { from, map, throwError, timer } from 'rxjs';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent } from '../../operators/index.js';
import { batchMap, lanes, robust } from '../../operators/index.js';
import { type FlowCounters } from '../../src/inspector/counters.js';
import { FlowModel } from '../../src/inspector/flow-model.js';

export interface RunOptions {
  readonly items: number;
  readonly maxSize?: number;
  /** Every so many calls one is refused with 429. @defaultValue never */
  readonly throttledEvery?: number;
  /** Items that are refused. @defaultValue none */
  readonly poisoned?: readonly number[];
  readonly lanes?: readonly string[];
}

/** Events of a whole run of `batchMap` in virtual time. */
export function recordedRun({
  items,
  maxSize = 8,
  throttledEvery = Infinity,
  poisoned = [],
  lanes: names = ['user', 'normal'],
}: RunOptions): FlowEvent[] {
  const events: FlowEvent[] = [];
  let calls = 0;
  const work = (batch: readonly number[]) => {
    calls += 1;
    const error =
      calls % throttledEvery === 0
        ? Object.assign(new Error('slow down'), { status: 429 })
        : batch.some((item) => poisoned.includes(item))
          ? Object.assign(new Error('refused'), { status: 400 })
          : undefined;
    return error === undefined ? timer(20 + batch.length).pipe(map(() => [...batch])) : throwError(() => error);
  };
  const queue = lanes<number>(
    names.map((name) => ({ name })),
    { by: (item) => names[item % names.length] ?? '' },
  );
  virtualTime(({ flush }) => {
    from(Array.from({ length: items }, (_, i) => i))
      .pipe(
        batchMap(work, {
          queue,
          maxSize,
          concurrency: 4,
          repair: robust(),
          name: 'run',
          random: () => 0.5,
          onEvent: (event) => events.push(event),
        }),
      )
      .subscribe();
    flush();
  });
  return events;
}

export function asLines(events: readonly FlowEvent[]): string {
  return events.map((event) => `${JSON.stringify(event)}\n`).join('');
}

/** Counters of a model of these events. Percentiles are rounded: a browser and Node need not have the same last digit. */
export function countersOf(events: readonly FlowEvent[]): FlowCounters {
  const model = new FlowModel();
  for (const event of events) model.add(event);
  return rounded(model.counters);
}

export function rounded(counters: FlowCounters): FlowCounters {
  return { ...counters, p50Ms: Math.round(counters.p50Ms), p99Ms: Math.round(counters.p99Ms) };
}
