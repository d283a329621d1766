import { startAgentServer } from '../test/support/agent-server.js';
import type { Web, WebPage } from '../test/web/support/browser.js';
import { startWeb, until } from '../test/web/support/browser.js';
import { median, ratio, table } from './harness.js';

/** One page under one load, and what was promised of it against the first of its table. */
interface Contestant {
  readonly name: string;
  readonly file: string;
  readonly query?: Readonly<Record<string, string | number>>;
  readonly most?: { readonly of: 'cpuMs' | 'wallMs'; readonly ratio: number };
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
  /** Of the tasks above 50 ms; 0 when there was none. */
  readonly longestTaskMs: number;
}

const agUi: readonly Contestant[] = [
  { name: 'plain `runAgent` and `setState`', file: 'chat-plain.tsx' },
  { name: 'the middlewares of `aguiFlow`', file: 'chat-plain.tsx', query: { flow: 1 }, most: { of: 'cpuMs', ratio: 0.25 } },
  { name: '`switchLatest`, `toStore`, `useFlowValue`', file: 'chat-store.tsx', most: { of: 'cpuMs', ratio: 0.25 } },
];

const contests: readonly Contest[] = [
  { title: 'AG-UI, a burst of 2,000 deltas and 3 tool calls', load: { chunks: 2000, tools: 3 }, contestants: agUi },
  {
    title: 'AG-UI, 500 deltas a second for 10 s',
    load: { chunks: 5000, everyMs: 2 },
    contestants: [
      agUi[0]!,
      { name: '`toStore` once a frame', file: 'chat-store.tsx', most: { of: 'cpuMs', ratio: 0.85 } },
      { name: '`toStore` every 100 ms', file: 'chat-store.tsx', query: { pace: 100 }, most: { of: 'cpuMs', ratio: 0.5 } },
    ],
  },
  {
    title: '`useChat` of TanStack AI, a burst of 2,000 deltas',
    load: { chunks: 2000 },
    contestants: [
      { name: 'its own connection', file: 'chat-tanstack.tsx' },
      { name: 'behind `flowStream`', file: 'chat-tanstack.tsx', query: { flow: 1 }, most: { of: 'wallMs', ratio: 0.1 } },
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
  const rows = contestants.map(({ name, most }, i) => {
    const ratios = (['cpuMs', 'wallMs'] as const).map((what) => ratio(of(i, what), of(0, what)));
    const limit = most === undefined ? '' : `${most.of === 'cpuMs' ? 'CPU' : 'wall'} ≤ ${most.ratio}`;
    const missed = most !== undefined && ratios[most.of === 'cpuMs' ? 0 : 1]! > most.ratio ? ' MISSED' : '';
    return [
      name,
      median(of(i, 'cpuMs')).toFixed(0),
      ratios[0]!.toFixed(2),
      median(of(i, 'wallMs')).toFixed(0),
      ratios[1]!.toFixed(2),
      median(of(i, 'renders')).toFixed(0),
      Math.max(...of(i, 'mostPerFrame')).toFixed(0),
      median(of(i, 'longestTaskMs')).toFixed(0),
      limit + missed,
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
    'longest task above 50 ms',
    'promised',
  ];
  return `### ${title}\n\n${table(heads, rows)}`;
}

async function measure(web: Web, { file, query }: Contestant, load: Contest['load']): Promise<Run> {
  const { chunks = 0, everyMs = 0 } = load;
  const agents = await startAgentServer();
  const opened = await web.open(file, { agent: agents.url, ...load, ...query });
  try {
    const { page, devtools } = opened;
    await until('the page is there', () => page.evaluate(() => 'chat' in globalThis));
    await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300)));
    const before = await cpuMs(opened);
    const { wallMs, ...seen } = await page.evaluate(
      async ([last, limitMs]) => {
        const begun = performance.now();
        globalThis.chat.renders = 0;
        globalThis.chat.longTasks.length = 0;
        globalThis.chat.send('speak');
        // A timer costs the page next to nothing; every variant has it.
        while (!globalThis.chat.text().endsWith(last)) {
          await new Promise((resolve) => setTimeout(resolve, 5));
          if (performance.now() - begun > limitMs) throw new Error('the answer never came');
        }
        const wallMs = performance.now() - begun;
        await new Promise((resolve) => setTimeout(resolve, 100));
        const { renders, mostPerFrame, longTasks } = globalThis.chat;
        return { wallMs, renders, mostPerFrame, longestTaskMs: Math.max(0, ...longTasks) };
      },
      [`w${chunks - 1} `, 60_000 + chunks * everyMs] as const,
    );
    return { ...seen, wallMs, cpuMs: (await cpuMs(opened)) - before };
  } finally {
    await opened.context.close();
    await agents.close();
  }
}

async function cpuMs({ devtools }: WebPage): Promise<number> {
  const { metrics } = await devtools.send('Performance.getMetrics');
  return 1000 * metrics.find(({ name }) => name === 'TaskDuration')!.value;
}
