import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { sized } from '../support/deep.js';
import { bundle } from '../world/bundle.js';
import { NAMES, type Subject } from '../world/subjects.js';
import { runWatched } from '../world/watched.js';
import { KNOWN } from './known.js';
import type { Heard, MatrixTask } from './matrix.worker.js';

// `SLUICE_ONLY='batchMap, full'` goes through all cells of the scenarios that begin like this.
const { SLUICE_ONLY } = process.env;
const isWhole = SLUICE_ONLY !== undefined;
const MOST_SCENARIOS = isWhole ? Infinity : sized(100, Infinity);
const MOST_CELLS = isWhole ? Infinity : sized(160, Infinity);

/** The events of an operator's page, which are all there are; for one of them 10,000 items have to wait. */
async function documentedEvents(subject: Subject): Promise<string[]> {
  const page = subject.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const text = await readFile(join(import.meta.dirname, `../../docs/operators/${page}.md`), 'utf8');
  const telemetry = text.slice(text.indexOf('## Telemetry'), text.indexOf('## Patterns'));
  const rows = telemetry.split('\n').filter((line) => line.startsWith('| `'));
  return rows
    .flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name))
    .filter((name) => name !== 'queueLong');
}

/** Events that no cell comes by, and why. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  queueLong: 'wants 10,000 items',
  hintClamped: 'wants an answer that asks for days',
  costClamped: 'wants a job that costs more than a window',
  storeDown: 'wants a store that does not answer: test/shared/limiters.test.ts',
  storeUp: 'as above',
  chargedOnArrival: 'wants a provider that charges `max_tokens` at once',
};

describe('a callback may do anything: send, leave, drain, close, flush, change limits, throw', () => {
  const subjects = NAMES.filter((name) => (SLUICE_ONLY === undefined ? !(name in KNOWN) : SLUICE_ONLY.split(',')[0] === name));
  const bad = new Map(subjects.map((subject) => [subject, new Map<string, string>()]));
  const events = new Map<Subject, ReadonlySet<string>>();

  // One worker for all: to start one takes longer than many cells.
  beforeAll(async () => {
    const note = (subject: Subject, problem: string, cell: string): void => {
      const known = bad.get(subject);
      if (known?.has(problem) === false) known.set(problem, cell);
    };
    const task: MatrixTask = { subjects, only: SLUICE_ONLY ?? '', mostScenarios: MOST_SCENARIOS, mostCells: MOST_CELLS };
    await runWatched(await bundle(join(import.meta.dirname, 'matrix.worker.ts')), task, {
      heard: (heard: Heard) => {
        if (heard.kind === 'done') events.set(heard.subject, new Set(heard.events));
        else for (const problem of heard.problems) note(heard.subject, problem, heard.name);
      },
      hangs: (cell) => {
        note(cell.split(',')[0] as Subject, 'never ends', cell);
      },
    });
  }, 7_200_000);

  it.each(subjects)('%s', async (subject) => {
    expect(
      [...(bad.get(subject) ?? [])].map(([problem, cell]) => `${problem}  <-  ${cell}`),
      'what went wrong, and the first cell where it did',
    ).toEqual([]);
    const heard = events.get(subject);
    expect(heard, 'was gone through').toBeDefined();
    const missed = (await documentedEvents(subject)).filter((event) => !(event in ELSEWHERE) && heard?.has(event) !== true);
    if (SLUICE_ONLY === undefined) expect(missed, 'events that no scenario comes by').toEqual([]);
  });
});
