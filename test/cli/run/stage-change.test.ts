import { copyFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { dryRun } from '../../../src/cli/run/dry-run.js';
import { RunJob, type RunJobOptions } from '../../../src/cli/run/run-job.js';
import { planRun, type RunPlan } from '../../../src/cli/run/run-plan.js';
import type { RunSummary } from '../../../src/cli/run/run-summary.js';
import type { StageConfig } from '../../../src/edge/config/schema.js';
import { buildCli } from '../../support/cli.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

let folder: string;
let chat: FakeChat;
let refuses: RegExp | undefined;
let status = 400;
let callsLeft = Infinity;
let atLast = (): void => undefined;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-change-'));
  refuses = undefined;
  status = 400;
  callsLeft = Infinity;
  chat = await startFakeChat({
    answer: (prompt) =>
      prompt.startsWith('ask ') ? JSON.stringify(['1', '2'].map((n) => `${prompt.slice(4)}${n}`)) : prompt.toUpperCase(),
    fault: (prompt) => {
      callsLeft -= 1;
      if (callsLeft === 0) atLast();
      return refuses?.test(prompt) === true ? { status, message: 'not that' } : undefined;
    },
  });
});
afterEach(async () => {
  await chat.close();
  rmSync(folder, { recursive: true, force: true });
});

const QUESTION: StageConfig = { name: 'question', prompt: 'ask {{text}}', answer: 'list' };
const answerBy = (verb: string): StageConfig => ({ name: 'answer', prompt: `${verb} {{question}}`, allowPartialFailure: true });
const TITLE: StageConfig = { name: 'title', prompt: 'title of {{text}}' };
const grade = (verb: string): StageConfig => ({ name: 'grade', prompt: `${verb} {{answer}}`, allowPartialFailure: true });
const TEXTS = ['a', 'b', 'c', 'd'];

function planOf(stages: readonly StageConfig[], texts = TEXTS): RunPlan {
  writeFileSync(join(folder, 'in.jsonl'), texts.map((text) => `${JSON.stringify({ id: text, text })}\n`).join(''));
  const model = { baseUrl: chat.baseUrl, model: 'm', retry: false as const };
  const config = { model, stages, input: { path: 'in.jsonl' }, output: { path: 'out.jsonl' } };
  writeFileSync(join(folder, 'run.json'), JSON.stringify(config));
  return planRun(config, join(folder, 'run.json'), { env: {}, cwd: () => '/' });
}

function run(plan: RunPlan, given: Partial<RunJobOptions> = {}): Promise<RunSummary> {
  const options = { plan, limit: Infinity, maxUsd: undefined, retryFailed: false, events: undefined, ...given };
  const never = new AbortController().signal;
  return new RunJob(options, { stop: never, abort: never }).run();
}

function linesOf(name: string): Record<string, unknown>[] {
  if (!existsSync(join(folder, name))) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

const bytesOf = (name: string): string => readFileSync(join(folder, name), 'utf8');
const answers = (): unknown[] =>
  linesOf('out.jsonl')
    .map(({ answer }) => answer)
    .sort();
const wanted = (verb: string, texts = TEXTS): string[] =>
  texts.flatMap((text) => ['1', '2'].map((n) => `${verb} ${text}${n}`.toUpperCase())).sort();
/** How often each prompt of a stage was sent. */
const sentOf = (verb: string): number =>
  [...chat.sent].reduce((sum, [prompt, times]) => sum + (prompt.startsWith(`${verb} `) ? times : 0), 0);

const note = (about: string, counts: string): string =>
  `the stages are not those of the last run (${about}): ${counts}; the output begins anew, and \`out.jsonl.before\` has what stood in it`;

describe('a run whose stages have changed since the last one', () => {
  it('keeps what stages before the change have answered, asks the others again, and keeps the output beside', async () => {
    await run(planOf([QUESTION, answerBy('say')]));
    const before = bytesOf('out.jsonl');
    const changed = planOf([QUESTION, answerBy('sing')]);
    const says = note('`answer` is changed', '4 answers of `question` are kept, 8 answers of `answer` are asked again');
    const dry = await dryRun(changed, { limit: Infinity, retryFailed: false });
    expect(dry).toMatchObject({ rows: 4, earlier: 0, calls: 8, notes: [says] });
    expect(bytesOf('out.jsonl')).toBe(before);
    expect(await run(changed)).toMatchObject({ exitCode: 0, calls: dry.calls, recalled: 4, rows: { ok: 4, earlier: 0 }, notes: [says] });
    expect([answers(), bytesOf('out.jsonl.before'), sentOf('ask')]).toEqual([wanted('sing'), before, 4]);
    expect(await run(changed)).toMatchObject({ calls: 0, rows: { ok: 0, earlier: 4 }, notes: [] });
  });

  it('has all answers again, without a call, when it changes back', async () => {
    const [old, other] = [
      [QUESTION, answerBy('say')],
      [QUESTION, answerBy('sing')],
    ];
    await run(planOf(old));
    await run(planOf(other), { limit: 1 });
    const counts = '4 answers of `question` are kept, 8 answers of `answer` are kept';
    expect(await run(planOf(old))).toMatchObject({ calls: 0, rows: { ok: 4 }, notes: [note('`answer` is changed', counts)] });
    expect(answers()).toEqual(wanted('say'));
    expect(await run(planOf(other))).toMatchObject({ calls: 6, rows: { ok: 4 } });
    expect(answers()).toEqual(wanted('sing'));
  });

  it('keeps what does not depend on the change: behind it, and when stages come and go', async () => {
    await run(planOf([TITLE, QUESTION, answerBy('say')]));
    const retitled = { ...TITLE, prompt: 'name of {{text}}' };
    expect(await run(planOf([retitled, QUESTION, answerBy('say')]))).toMatchObject({ calls: 4, rows: { ok: 4 } });
    expect(await run(planOf([QUESTION, answerBy('say'), grade('grade')]))).toMatchObject({ calls: 8, rows: { ok: 4 } });
    expect(linesOf('out.jsonl').every(({ grade: given, title }) => String(given).startsWith('GRADE SAY ') && title === undefined)).toBe(
      true,
    );
    expect(await run(planOf([QUESTION, answerBy('say')]))).toMatchObject({ calls: 0, rows: { ok: 4 } });
    // What is asked now is asked of other things.
    expect(await run(planOf([TITLE, QUESTION, answerBy('sing'), grade('grade')]))).toMatchObject({ calls: 16, rows: { ok: 4 } });
  });

  it('is refused when no answer could be kept, and changes nothing then', async () => {
    await run(planOf([QUESTION, answerBy('say')]));
    const left = ['out.jsonl', 'out.jsonl.journal'].map(bytesOf);
    const changed = planOf([{ ...QUESTION, prompt: 'ask about {{text}}' }, answerBy('say')]);
    const message = /^the journal `out\.jsonl\.journal` has answers to other prompts, or of another model; give another/;
    await expect(run(changed)).rejects.toThrow(message);
    await expect(dryRun(changed, { limit: Infinity, retryFailed: false })).rejects.toThrow(message);
    expect(['out.jsonl', 'out.jsonl.journal'].map(bytesOf)).toEqual(left);
    expect(existsSync(join(folder, 'out.jsonl.before'))).toBe(false);
  });

  it('is refused when only what was cut could be kept', async () => {
    const part: StageConfig = { name: 'part', chunk: { field: 'text' } };
    await run(planOf([part, { name: 'reply', prompt: 'say {{part}}' }]));
    await expect(run(planOf([part, { name: 'reply', prompt: 'sing {{part}}' }]))).rejects.toMatchObject({ exitCode: 2 });
    expect(linesOf('out.jsonl')).toHaveLength(4);
  });

  it('takes up again what had failed, and knows it when it fails again', async () => {
    refuses = /^(ask c|say b2)$/;
    await run(planOf([QUESTION, answerBy('say')]));
    expect(linesOf('out.jsonl.failures.jsonl')).toHaveLength(2);
    refuses = /^(ask c|sing a1)$/;
    const changed = planOf([QUESTION, answerBy('sing')]);
    expect(await run(changed)).toMatchObject({ calls: 7, rows: { ok: 2, partial: 1, failed: 1 } });
    expect(
      linesOf('out.jsonl.failures.jsonl')
        .map(({ id, item, failure }) => [id, item, failure])
        .sort(),
    ).toEqual([
      ['a', '0', expect.any(Number)],
      ['c', undefined, expect.any(Number)],
    ]);
    expect(await run(changed)).toMatchObject({ calls: 0, rows: { earlier: 2, earlierFailed: 2 } });
    refuses = undefined;
    expect(await run(changed, { retryFailed: true })).toMatchObject({ exitCode: 0, calls: 4, rows: { ok: 2, earlier: 2 } });
    expect(answers()).toEqual(wanted('sing'));
    expect(linesOf('out.jsonl.failures.jsonl')).toEqual([]);
    // Both at a time.
    expect(await run(planOf([QUESTION, answerBy('hum')]), { retryFailed: true })).toMatchObject({ exitCode: 0, calls: 8, rows: { ok: 4 } });
    expect(answers()).toEqual(wanted('hum'));
  });

  it('does not take a server for broken because of rows that it refused before', async () => {
    const texts = ['y', ...Array.from({ length: 14 }, (_, i) => `x${String(i)}`), 'z'];
    status = 403;
    refuses = /^ask x/;
    expect(await run(planOf([QUESTION, answerBy('say')], texts))).toMatchObject({ exitCode: 1, rows: { ok: 2, failed: 14 } });
    expect(await run(planOf([QUESTION, answerBy('sing')], texts.slice(1)))).toMatchObject({ exitCode: 1, rows: { ok: 1, failed: 14 } });
    expect(answers()).toEqual(wanted('sing', ['z']));
  });

  it('goes on with rows that are new, and rows that were not done', async () => {
    await run(planOf([QUESTION, answerBy('say')], ['a', 'b']), { limit: 1 });
    expect(await run(planOf([QUESTION, answerBy('sing')], ['b', 'a', 'a', 'c']))).toMatchObject({ calls: 3 + 8, rows: { ok: 4 } });
    expect(answers()).toEqual(wanted('sing', ['a', 'a', 'b', 'c']));
  });

  it('leaves alone what somebody else has put where the output would be kept', async () => {
    await run(planOf([QUESTION, answerBy('say')]));
    writeFileSync(join(folder, 'out.jsonl.before'), 'mine\n');
    const changed = planOf([QUESTION, answerBy('sing')]);
    await expect(run(changed)).rejects.toThrow('`out.jsonl.before` is there already, and the output would be kept there');
    // As a killed run leaves it.
    copyFileSync(join(folder, 'out.jsonl'), join(folder, 'out.jsonl.before'));
    expect(await run(changed)).toMatchObject({ exitCode: 0, calls: 8 });
    // From now on it is ours.
    expect(await run(planOf([QUESTION, answerBy('hum')]))).toMatchObject({ exitCode: 0, calls: 8 });
    expect(
      linesOf('out.jsonl.before')
        .map(({ answer }) => answer)
        .sort(),
    ).toEqual(wanted('sing'));
  });

  it('asks for what it cannot tell when the line is damaged that told of the change', async () => {
    await run(planOf([QUESTION, answerBy('say')]));
    const changed = planOf([QUESTION, answerBy('sing')]);
    await run(changed, { limit: 2 });
    const lines = bytesOf('out.jsonl.journal').split('\n');
    const begun = lines.findLastIndex((line) => line.includes('"format"'));
    writeFileSync(join(folder, 'out.jsonl.journal'), lines.map((line, i) => (i === begun ? line.replace(/.$/, '!') : line)).join('\n'));
    const left = mkdtempSync(join(tmpdir(), 'sluice-left-'));
    cpSync(folder, left, { recursive: true });
    expect(await run(changed)).toMatchObject({ exitCode: 0, calls: 4, rows: { ok: 4 } });
    expect(answers()).toEqual(wanted('sing'));
    // And when it changes back at the same time.
    cpSync(left, folder, { recursive: true });
    rmSync(left, { recursive: true });
    expect(await run(planOf([QUESTION, answerBy('say')]))).toMatchObject({ exitCode: 0, calls: 0, rows: { ok: 4 } });
    expect(answers()).toEqual(wanted('say'));
  });

  it('goes on with a journal of before stages had keys, as long as nothing changes', async () => {
    const plan = planOf([QUESTION, answerBy('say')]);
    await run(plan, { limit: 2 });
    const { createHash } = await import('node:crypto');
    const old = bytesOf('out.jsonl.journal')
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const { key: _key, stages: _stages, ...entry } = JSON.parse(line.slice(17)) as Record<string, unknown>;
        const json = JSON.stringify(entry);
        return `${createHash('sha256').update(json).digest('hex').slice(0, 16)} ${json}\n`;
      });
    writeFileSync(join(folder, 'out.jsonl.journal'), old.join(''));
    expect(await run(plan)).toMatchObject({ exitCode: 0, calls: 6, rows: { ok: 2, earlier: 2 } });
    expect(answers()).toEqual(wanted('say'));
  });
});

describe('a run with changed stages that is killed', () => {
  it('goes on, wherever that was: each item once, no answer that is in the journal twice, and the old output beside', async () => {
    const cli = await buildCli();
    await run(planOf([QUESTION, answerBy('say')]));
    const before = bytesOf('out.jsonl');
    planOf([QUESTION, answerBy('sing')]);
    for (const kills of [1, 3, 2]) {
      callsLeft = kills;
      const child = cli.start(['run', 'run.json'], { cwd: folder });
      atLast = () => void child.child.kill('SIGKILL');
      expect((await child.ended).signal).toBe('SIGKILL');
      await expect.poll(() => chat.open, { timeout: 20_000 }).toBe(0);
    }
    const journaled = bytesOf('out.jsonl.journal')
      .split('\n')
      .filter((line) => line.includes('"SING ')).length;
    const sent = sentOf('sing');
    expect(await run(planOf([QUESTION, answerBy('sing')]))).toMatchObject({ exitCode: 0, calls: 8 - journaled });
    expect([answers(), bytesOf('out.jsonl.before')]).toEqual([wanted('sing'), before]);
    expect([sentOf('ask'), sentOf('sing')]).toEqual([4, sent + 8 - journaled]);
  });

  it('loses nothing between what it keeps and what it begins anew', async () => {
    await run(planOf([QUESTION, answerBy('say')]));
    const old = bytesOf('out.jsonl');
    const journal = bytesOf('out.jsonl.journal');
    const changed = planOf([QUESTION, answerBy('sing')]);
    await run(changed, { limit: 1 });
    const begun = bytesOf('out.jsonl.journal').slice(journal.length).split('\n')[0] ?? '';
    // The journal knows, or has half a line, and the output is still what it was.
    for (const [written, isKnown] of [
      [`${begun}\n`, true],
      [begun.slice(0, 30), false],
      ['', false],
    ] as const) {
      writeFileSync(join(folder, 'out.jsonl'), old);
      writeFileSync(join(folder, 'out.jsonl.journal'), `${journal}${written}`);
      writeFileSync(join(folder, 'out.jsonl.before.tmp'), old.slice(0, 20));
      const { notes, rows, calls } = await run(changed);
      expect({ notes: notes.length, calls, rows }).toMatchObject({ notes: isKnown ? 0 : 1, calls: 8, rows: { ok: 4 } });
      expect([answers(), bytesOf('out.jsonl.before')]).toEqual([wanted('sing'), old]);
    }
  });
});
