import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { operators as withPage } from '../package/files.js';
import { isDeep } from '../support/deep.js';
import { fences } from '../support/doctest.js';
import type { Job } from './jobs.js';
import { FOR_USERS, JOBS } from './jobs.js';

const project = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(project, path), 'utf8');

const page = read('docs/composition.md');

/** What a job has of one operator: which module gives it, and by what name. */
interface Use {
  readonly operator: string;
  readonly job: Job;
  readonly module: string;
  readonly name: string;
  /** What the page says beside the pipeline. */
  readonly how: string;
}

const sourceOf = new Map(
  [...read('operators/index.ts').matchAll(/^export \{([^}]+)\} from '\.\/(.+)\.js';$/gm)].flatMap(([, names = '', file = '']) =>
    names.split(',').map((name) => [name.trim(), `operators/${file}.ts`] as const),
  ),
);

const uses: readonly Use[] = JOBS.flatMap((job) => {
  const { madeOf = [], built = {}, inside = {} } = job;
  return [
    ...madeOf.map((operator) => ({ operator, job, module: 'operators/index.ts', name: operator, how: '' })),
    ...Object.entries(built).map(([operator, name]) => ({ operator, job, module: 'operators/build.ts', name, how: `, as \`${name}\`` })),
    ...Object.entries(inside).map(([operator, other]) => ({
      ...{ operator, job, module: sourceOf.get(operator) as string, name: operator },
      how: `, through the operator \`${other}\``,
    })),
  ];
});
/** Those that are proved: of each operator, whatever way a pipeline has it, the first. */
const proved = isDeep ? uses : uses.filter((use) => uses.find(({ operator }) => operator === use.operator) === use);
const usedOperators = [...new Set(uses.map(({ operator }) => operator))].sort(byName);

/** All values but classes of errors, which begin with a capital, and type guards, which begin with `is`. */
function isOperator(name: string): boolean {
  return /^[a-z]/.test(name) && !/^is[A-Z]/.test(name);
}

function byName(a: string, b: string): number {
  return a.toLowerCase() < b.toLowerCase() ? -1 : 1;
}

/** The pages where operators and values are described. */
function pageOf(operator: string): string {
  const file = operator.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return withPage.includes(file) ? `operators/${file}.md` : `values.md#${operator.toLowerCase()}`;
}

/** Rows of the table under a heading, without its head. */
function rowsUnder(heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return section.split('\n').filter((line) => line.startsWith('| [`'));
}

/** The job, with this operator replaced by one that throws when it is called, or without. */
async function outcomeOf(
  job: Job,
  replaced?: Use,
): Promise<{ readonly answer?: unknown; readonly error?: unknown; readonly calls: number }> {
  const stand = vi.fn((): never => {
    throw new Error(`${String(replaced?.operator)} was replaced`);
  });
  if (replaced) {
    const [first = '', inside] = replaced.name.split('.');
    vi.doMock(join(project, replaced.module), async (original) => {
      const whole = await original<Record<string, object>>();
      return { ...whole, [first]: inside === undefined ? stand : { ...whole[first], [inside]: stand } };
    });
  }
  try {
    return { answer: await job.run(), calls: stand.mock.calls.length };
  } catch (error) {
    return { error, calls: stand.mock.calls.length };
  } finally {
    if (replaced) vi.doUnmock(join(project, replaced.module));
  }
}

afterEach(() => {
  vi.resetModules();
});

describe.each(JOBS.map((job) => [job.pipeline, job.title, job] as const))('%s %s', (_pipeline, _title, job) => {
  it('with all operators', async () => {
    expect(await outcomeOf(job)).toEqual({ answer: job.answer, calls: 0 });
  });

  it.each(proved.flatMap((use) => (use.job === job ? [[use.operator, use] as const] : [])))('not without %s', async (_operator, use) => {
    const { answer, calls } = await outcomeOf(job, use);
    expect(calls).toBeGreaterThan(0);
    expect(answer).not.toEqual(job.answer);
  });
});

describe('the operators', () => {
  it('each stand in one of the two lists', async () => {
    const operators = Object.keys(await import('../../operators/index.js')).filter(isOperator);
    expect([...usedOperators, ...Object.keys(FOR_USERS)].sort(byName)).toEqual(operators.sort(byName));
  });

  it('that pipelines import are those of the table', () => {
    const imported = new Set(
      readdirSync(join(project, 'src'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .flatMap((name) => [...read(`src/${name}`).matchAll(/^import \{([^}]+)\} from '(?:\.\.\/)+operators\/index\.js';$/gm)])
        .flatMap(([, names = '']) => names.split(',').map((name) => name.trim().replace(/ as .+$/, ''))),
    );
    expect([...imported].filter(isOperator).sort(byName)).toEqual([...new Set(JOBS.flatMap(({ madeOf = [] }) => madeOf))].sort(byName));
  });
});

describe('docs/composition.md', () => {
  it('says what the pipelines are made of', () => {
    const expected = usedOperators.map((operator) => {
      const own = uses.filter((use) => use.operator === operator);
      const pipelines = own.map(({ job, how }) => `[\`${job.pipeline}\`](${job.page})${how}`);
      return `| [\`${operator}\`](${pageOf(operator)}) | ${pipelines.join('<br>')} | ${own.map(({ job }) => job.title).join('<br>')} |`;
    });
    expect(rowsUnder('What the pipelines are made of')).toEqual(expected);
  });

  it('leads from every other operator to a page', () => {
    const rows = rowsUnder('Operators for your own pipelines').map((row) =>
      /^\| \[`(\w+)`\]\((.+?)\) \| .+ \| \[.+\]\((.+)\) \|$/.exec(row)?.slice(1),
    );
    expect(rows).toEqual(Object.entries(FOR_USERS).map(([operator, link]) => [operator, pageOf(operator), link]));
  });

  it.each(Object.entries(FOR_USERS))('shows %s in code that is run', (operator, link) => {
    const [file = ''] = link.split('#');
    expect(existsSync(join(project, 'docs', file))).toBe(true);
    const text = read(`docs/${file}`);
    const infos = [...text.matchAll(/^```(ts (?:doctest|vitest)|tsx? examples\/\S+)$/gm)].map(([, info = '']) => info);
    const code = [...new Set(infos)].flatMap((info) => fences(text, info).map((fence) => fence.code));
    const isUsed = (one: string): boolean =>
      [...one.matchAll(/^import \{([^}]+)\} from 'sluice(?:\/\w+)?';$/gm)].some(([, names = '']) =>
        names.split(',').some((name) => name.trim() === operator),
      ) && new RegExp(`\\b${operator}(?:<[^(]*>)?\\(`).test(one);
    expect(code.some(isUsed)).toBe(true);
  });
});
