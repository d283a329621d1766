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
const MOST_CELLS = SLUICE_ONLY === undefined ? sized(60, Infinity) : Infinity;

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

describe('whoever is called back may do anything: send, leave, drain, close, flush, change limits, throw', () => {
  let code: string;
  beforeAll(async () => {
    code = await bundle(join(import.meta.dirname, 'matrix.worker.ts'));
  });

  const subjects = NAMES.filter((name) => (SLUICE_ONLY === undefined ? !(name in KNOWN) : SLUICE_ONLY.split(',')[0] === name));
  it.each(subjects)('%s', { timeout: 900_000 }, async (subject) => {
    const bad = new Map<string, string>();
    const events = new Set<string>();
    const task: MatrixTask = { only: SLUICE_ONLY ?? `${subject},`, most: MOST_CELLS };
    await runWatched(code, task, {
      heard: (heard: Heard) => {
        if (heard.kind === 'done') for (const event of heard.events) events.add(event);
        else for (const problem of heard.problems) if (!bad.has(problem)) bad.set(problem, heard.name);
      },
      hangs: (cell) => bad.set('never ends', cell),
    });
    expect(
      [...bad].map(([problem, cell]) => `${problem}  <-  ${cell}`),
      'what went wrong, and the first cell where it did',
    ).toEqual([]);
    // A cell has no 10,000 items, at which `queueLong` is told.
    const missed = (await documentedEvents(subject)).filter((event) => event !== 'queueLong' && !events.has(event));
    if (SLUICE_ONLY === undefined) expect(missed, 'events that no scenario comes by').toEqual([]);
  });
});
