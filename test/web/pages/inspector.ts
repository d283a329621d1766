import { interval, map, mergeMap, Subject, throwError, timer } from 'rxjs';
import { createLimiter, divideAndConquer, perMinute, retryFailed } from '../../../operators/index.js';
import type { FlowEvent } from '../../../src/index.js';
import { batchMap, lanes } from '../../../src/index.js';
import type { RecordingPlayer, SluiceInspector } from '../../../src/inspector/index.js';
import { defineInspector, importRecording, playRecording } from '../../../src/inspector/index.js';
import { createMetrics } from '../../../src/metrics/index.js';

const query = new URLSearchParams(location.search);
const number = (name: string, without: number): number => Number(query.get(name) ?? without);

/** What no page and no recording may show. */
const SECRET = 'sk-planted-in-the-payload';

interface Item {
  readonly n: number;
  readonly prompt: string;
}

/** A pipeline that never ends: three lanes, one limiter, now and then a bad item and a backend that is busy. */
function pipeline(perSecond: number) {
  const metrics = createMetrics({ maxBatchSize: 8 });
  const order = [{ name: 'user', maxWaitMs: 10 }, { name: 'normal' }, { name: 'background' }];
  const slots = Math.max(4, Math.round(perSecond / 6));
  const limiter = createLimiter({
    concurrency: slots,
    rates: [perMinute('requests', 60 * perSecond)],
    queue: lanes(order),
    onEvent: metrics.sink,
  });
  metrics.observe('provider', limiter);
  const input = new Subject<Item>();
  let calls = 0;
  const results = input.pipe(
    batchMap(
      (items: readonly Item[]) => {
        const isBusy = ++calls % (perSecond > 100 ? 1000 : 40) === 0;
        const isBad = items.some(({ n }) => n % 61 === 60);
        return timer(300 + (calls % 7) * 60).pipe(
          mergeMap(() => {
            if (isBusy) return throwError(() => Object.assign(new Error(SECRET), { status: 429 }));
            if (isBad) return throwError(() => Object.assign(new Error(SECRET), { status: 400 }));
            return [items];
          }),
        );
      },
      {
        maxSize: 8,
        queue: lanes(order, { by: ({ n }: Item) => (n % 10 < 2 ? 'user' : n % 10 < 5 ? 'normal' : 'background') }),
        limiter,
        repair: [retryFailed({ delayMs: 200 }), divideAndConquer()],
        onEvent: metrics.sink,
      },
    ),
  );
  let n = 0;
  // A timer cannot ring every 2 ms: as many as are due.
  let last = performance.now();
  let due = 0;
  const feed = interval(10).pipe(
    map(() => {
      const now = performance.now();
      if (globalThis.demo.isFed) due += ((now - last) * perSecond) / 1000;
      last = now;
      return due;
    }),
  );
  return {
    metrics,
    start: () => {
      const running = results.subscribe();
      running.add(
        feed.subscribe(() => {
          for (; n < Math.floor(due); n++) input.next({ n, prompt: SECRET });
        }),
      );
      return running;
    },
  };
}

declare global {
  var demo: {
    readonly inspectors: readonly SluiceInspector[];
    readonly told: readonly FlowEvent[];
    /** Plays a recording in the first one. */
    play(text: string): RecordingPlayer;
    /** Whether items come. */
    isFed: boolean;
    stop(): void;
  };
}

document.documentElement.lang = 'en';
document.title = 'Inspector';
document.body.style.margin = '12px';
const root = document.getElementById('root') as HTMLElement;
// Before it is defined: what is set on it is not lost.
const inspectors: readonly SluiceInspector[] = Array.from({ length: number('boards', 1) }, (_, i) => {
  const element = document.createElement('sluice-inspector') as SluiceInspector;
  element.heading = `Board ${String(i + 1)}`;
  root.append(element);
  return element;
});
const pipelines = inspectors.map((element) => {
  const made = pipeline(number('rate', 40));
  element.source = made.metrics;
  return made;
});
defineInspector();
const told: FlowEvent[] = [];
if (query.get('told') === '1') pipelines[0]?.metrics.events.subscribe((event) => told.push(event));
const running = pipelines.map(({ start }) => start());
globalThis.demo = {
  inspectors,
  told,
  play: (text) => {
    const player = playRecording(inspectors[0]!, importRecording(text));
    root.append(player.controls);
    return player;
  },
  stop: () => {
    for (const one of running) one.unsubscribe();
  },
  isFed: true,
};
