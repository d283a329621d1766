import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLimiter } from '../operators/create-limiter.js';
import { machine, table } from './harness.js';
import type { ApiOptions, Open } from './sdks/api.js';
import type { Cell } from './sdks/cells.js';
import { CELLS } from './sdks/cells.js';
import { PACKAGES, SDKS } from './sdks/sdks.js';

const CONCURRENCY = 2;

interface Way {
  readonly name: string;
  readonly isAlone: boolean;
  readonly open: Open;
}

/** Each SDK as it is, and with a limiter of its own. */
const ways: readonly Way[] = SDKS.flatMap(({ name, alone, limited }): Way[] => [
  ...(alone ? [{ name, isAlone: true, open: alone }] : []),
  ...(limited
    ? [{ name, isAlone: false, open: (options: ApiOptions) => limited(options, createLimiter({ concurrency: CONCURRENCY })) }]
    : []),
]);

/** All of its cells of that kind beside each other. */
async function measureAll({ isAlone, open }: Way, isLong: boolean): Promise<ReadonlyMap<Cell, string>> {
  const cells = CELLS.filter((cell) => cell.isLong(isAlone) === isLong);
  return new Map(await Promise.all(cells.map(async (cell): Promise<[Cell, string]> => [cell, await cell.measure(open)])));
}

/** Compiles what all cells need. */
async function warmUp({ open }: Way): Promise<void> {
  const { call, stream, close } = await open({});
  const { signal } = new AbortController();
  await call('hello', signal);
  await stream?.('hello', signal);
  await close();
}

/** What each SDK does by itself and with our adapter, measured over HTTP. `root` has its packages. */
export async function sdkBehaviourTable(root: string): Promise<string> {
  // What the packages say about all that goes wrong here on purpose.
  Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });
  for (const way of ways) await warmUp(way);
  // Short cells run one after the other. Cells that wait for seconds do not disturb them, so they run at the same time.
  const short: ReadonlyMap<Cell, string>[] = [];
  const pending: Promise<ReadonlyMap<Cell, string>>[] = [];
  for (const way of ways) {
    short.push(await measureAll(way, false));
    pending.push(measureAll(way, true));
  }
  const long = await Promise.all(pending);
  const rows = ways.map(({ name, isAlone }, i) => [
    name === ways[i - 1]?.name ? '' : name,
    isAlone ? 'alone' : 'with Sluice',
    ...CELLS.map((cell) => (short[i]!.get(cell) ?? long[i]!.get(cell))!),
  ]);
  return `${circumstances(root)}\n\n${table(['SDK', '', ...CELLS.map(({ head }) => head)], rows)}`;
}

function circumstances(root: string): string {
  const versions = PACKAGES.map((name) => {
    const { version } = JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')) as { readonly version: string };
    return `\`${name}\` ${version}`;
  });
  const day = new Date().toISOString().slice(0, 10);
  return `${day}, ${machine()}; ${versions.join(', ')}.`;
}
