import { startAgentServer } from '../test/support/agent-server.js';
import type { Web, WebPage } from '../test/web/support/browser.js';
import { startWeb, until } from '../test/web/support/browser.js';
import { median, ratio, table } from './harness.js';

/** One page under one load, and what was promised of it against the first of its table. */
interface Contestant {
  readonly name: string;
  readonly file: string;
  readonly query?: Readonly<Record<string, string | number>>;
  /** Ratios to the first, and how much longer a task may be than the longest one of the page without events. */
  readonly most?: { readonly cpu?: number; readonly wall?: number; readonly taskMs?: number };
}

interface Contest {
  readonly title: string;
  readonly load: Readonly<Record<string, number>>;
  readonly contestants: readonly Contestant[];
}

interface Run {
  /** Time of the processor in the main thread of the page. */
  readonly cpuMs: number;
  readonly wallMs: number;
  readonly renders: number;
  readonly mostPerFrame: number;
  /** Of the main thread, in ms on the processor, however short it was: by the clock it is longer when others use the processor as well. */
  readonly longestTaskMs: number;
  /** The same page before anything is asked. */
  readonly ownTaskMs: number;
}

/** How long the page is looked at while nothing happens. */
const IDLE_MS = 300;

const agUi: readonly Contestant[] = [
  { name: 'plain `runAgent` and `setState`', file: 'chat-plain.tsx' },
  { name: 'the middlewares of `aguiFlow`', file: 'chat-plain.tsx', query: { flow: 1 }, most: { cpu: 0.25, taskMs: 50 } },
  { name: '`switchLatest`, `toStore`, `useFlowValue`', file: 'chat-store.tsx', most: { cpu: 0.25, taskMs: 50 } },
];

const contests: readonly Contest[] = [
  { title: 'AG-UI, a burst of 2,000 deltas and 3 tool calls', load: { chunks: 2000, tools: 3 }, contestants: agUi },
  {
    title: 'AG-UI, 500 deltas a second for 10 s',
    load: { chunks: 5000, everyMs: 2 },
    contestants: [
      agUi[0]!,
      { name: '`toStore` once a frame', file: 'chat-store.tsx', most: { cpu: 0.85 } },
      { name: '`toStore` every 100 ms', file: 'chat-store.tsx', query: { pace: 100 }, most: { cpu: 0.5 } },
    ],
  },
  {
    title: '`useChat` of TanStack AI, a burst of 2,000 deltas',
    load: { chunks: 2000 },
    contestants: [
      { name: 'its own connection', file: 'chat-tanstack.tsx' },
      { name: 'behind `flowStream`', file: 'chat-tanstack.tsx', query: { flow: 1 }, most: { wall: 0.1 } },
    ],
  },
  {
    title: '`useChat` of the AI SDK, 500 deltas a second for 4 s',
    load: { chunks: 2000, everyMs: 2 },
    contestants: [
      { name: 'its own transport', file: 'chat-ai-sdk.tsx' },
      { name: 'behind `flowTransport`', file: 'chat-ai-sdk.tsx', query: { flow: 1 } },
    ],
  },
];

/** Every contest in Chromium: the contestants in turn, round after round, each in a new tab. */
export async function* browserTables(rounds: number, only?: string): AsyncGenerator<string> {
  const web = await startWeb();
  try {
    for (const contest of contests.filter(({ title }) => only === undefined || title.includes(only)))
      yield await contestTable(web, contest, rounds);
  } finally {
    await web.close();
  }
}

async function contestTable(web: Web, { title, load, contestants }: Contest, rounds: number): Promise<string> {
  const runs = contestants.map((): Run[] => []);
  // The first round is not counted.
  for (let round = -1; round < rounds; round++) {
    for (const [i, contestant] of contestants.entries()) {
      const run = await measure(web, contestant, load);
      if (round >= 0) runs[i]!.push(run);
    }
  }
  const of = (i: number, what: keyof Run): number[] => runs[i]!.map((run) => run[what]);
  const rows = contestants.map(({ name, most = {} }, i) => {
    const now = {
      cpu: ratio(of(i, 'cpuMs'), of(0, 'cpuMs')),
      wall: ratio(of(i, 'wallMs'), of(0, 'wallMs')),
      taskMs: median(of(i, 'longestTaskMs')) - median(of(i, 'ownTaskMs')),
    };
    const promised = (['cpu', 'wall', 'taskMs'] as const).flatMap((what) => {
      const limit = most[what];
      return limit === undefined ? [] : [`${PROMISES[what]} ${limit}${now[what] > limit ? ' MISSED' : ''}`];
    });
    return [
      name,
      median(of(i, 'cpuMs')).toFixed(0),
      now.cpu.toFixed(2),
      median(of(i, 'wallMs')).toFixed(0),
      now.wall.toFixed(2),
      median(of(i, 'renders')).toFixed(0),
      Math.max(...of(i, 'mostPerFrame')).toFixed(0),
      median(of(i, 'longestTaskMs')).toFixed(1),
      median(of(i, 'ownTaskMs')).toFixed(1),
      promised.join(', '),
    ];
  });
  const heads = [
    'page',
    'CPU ms',
    'to the first',
    'wall ms',
    'to the first',
    'renders',
    'most in a frame',
    'longest task CPU ms',
    'without events',
    'promised',
  ];
  return `### ${title}\n\n${table(heads, rows)}`;
}

const PROMISES = { cpu: 'CPU ≤', wall: 'wall ≤', taskMs: 'task ≤ without events +' } as const;

async function measure(web: Web, { file, query }: Contestant, load: Contest['load']): Promise<Run> {
  const { chunks = 0, everyMs = 0 } = load;
  const agents = await startAgentServer();
  const opened = await web.open(file, { agent: agents.url, ...load, ...query });
  try {
    const { page, devtools } = opened;
    await until('the page is there', () => page.evaluate(() => 'chat' in globalThis));
    await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
    const wait = (ms: number): Promise<void> => page.evaluate((time) => new Promise((resolve) => setTimeout(resolve, time)), ms);
    // What the page has done to be there is over.
    await wait(IDLE_MS);
    const idle = await traced(opened, () => wait(IDLE_MS));
    const before = await cpuMs(opened);
    const asked = await traced(opened, () => ask(opened, `w${chunks - 1} `, 60_000 + chunks * everyMs));
    const after = await cpuMs(opened);
    return { ...asked.result, cpuMs: after - before, longestTaskMs: asked.longestTaskMs, ownTaskMs: idle.longestTaskMs };
  } finally {
    await opened.context.close();
    await agents.close();
  }
}

/** One question, until its answer ends with `last`. */
async function ask({ page }: WebPage, last: string, limitMs: number): Promise<Pick<Run, 'wallMs' | 'renders' | 'mostPerFrame'>> {
  return page.evaluate(
    async ([end, most]) => {
      const begun = performance.now();
      globalThis.chat.renders = 0;
      globalThis.chat.send('speak');
      // A timer costs the page next to nothing; every variant has it.
      while (!globalThis.chat.text().endsWith(end)) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (performance.now() - begun > most) throw new Error('the answer never came');
      }
      const wallMs = performance.now() - begun;
      await new Promise((resolve) => setTimeout(resolve, 100));
      const { renders, mostPerFrame } = globalThis.chat;
      return { wallMs, renders, mostPerFrame };
    },
    [last, limitMs] as const,
  );
}

async function cpuMs({ devtools }: WebPage): Promise<number> {
  const { metrics } = await devtools.send('Performance.getMetrics');
  return 1000 * metrics.find(({ name }) => name === 'TaskDuration')!.value;
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** On the processor, in microseconds. */
  readonly tdur?: number;
  readonly args: { readonly name?: string };
}

/** The longest task of the page's main thread while `run` works, with its microtasks. What the page can see by itself are those above 50 ms. */
async function traced<R>(
  { page, context }: WebPage,
  run: () => Promise<R>,
): Promise<{ readonly result: R; readonly longestTaskMs: number }> {
  const browser = context.browser()!;
  await browser.startTracing(page, { categories: ['-*', 'disabled-by-default-devtools.timeline'] });
  let result: R;
  let trace: Buffer;
  try {
    result = await run();
  } finally {
    trace = await browser.stopTracing();
  }
  const { traceEvents } = JSON.parse(trace.toString()) as { readonly traceEvents: readonly TraceEvent[] };
  const main = traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain');
  if (main.length !== 1) throw new Error(`one page has one main thread, and the trace has ${main.length}`);
  const tasks = traceEvents.filter(({ name, pid, tid }) => name === 'RunTask' && pid === main[0]!.pid && tid === main[0]!.tid);
  if (tasks.length === 0) throw new Error('the trace has no tasks');
  return { result, longestTaskMs: Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1000 };
}
