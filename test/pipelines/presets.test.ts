import { map, NEVER, of, range, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { backpressure, batch, coalesce } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { type Config, modelCallerOptions, parseConfig } from '../../src/edge/index.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { presets } from '../../src/pipelines/presets.js';

const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** As a file would be read. */
function read(preset: object): Config {
  const parsed = parseConfig(JSON.stringify(preset), { format: 'json' });
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.value;
}

describe('presets', () => {
  it('are plain data', () => {
    expect(throughJson(presets)).toEqual(presets);
    expect(structuredClone(presets)).toEqual(presets);
  });

  it('for properties have the numbers of their situations', () => {
    const rows = Object.entries(presets.llmProperties).map(([name, preset]) => {
      const { limits, model } = read(preset);
      return [name, limits?.concurrency, model?.timeoutMs, model?.deadlineMs, model?.retry && model.retry.maxAttempts];
    });
    expect(rows).toEqual([
      ['production', 4, 10_000, 30_000, 3],
      ['highConcurrency', 8, 8000, 30_000, 3],
      ['lowLatency', 3, 5000, 20_000, 3],
      ['test', 2, 15_000, 60_000, 3],
    ]);
  });

  it('for properties say the same as those of the model caller', () => {
    for (const [name, { concurrency, ...model }] of Object.entries(presets.modelCaller)) {
      expect(presets.llmProperties[name as keyof typeof presets.modelCaller]).toEqual({ limits: { concurrency }, model });
    }
  });

  it('for papers have the numbers of their situations', () => {
    const rows = Object.entries(presets.paper).map(([name, preset]) => {
      const { batches, stages = [], limits } = read(preset);
      expect(stages.map(({ scope }) => scope)).toEqual(['perBatch', 'perBatch', 'perBatch']);
      expect(stages.map(({ timeoutMs, expect: load }) => [timeoutMs, load?.itemsPerDocument])).toEqual([
        [undefined, undefined],
        [120_000, 20],
        [60_000, 20],
      ]);
      const { concurrency, requestsPerMinute = 0, burst } = limits ?? {};
      return [name, batches?.concurrency, stages.map((stage) => stage.concurrency), concurrency, requestsPerMinute / 60, burst];
    });
    expect(rows).toEqual([
      ['development', 1, [1, 2, 1], 5, 2, 4],
      ['production', 3, [1, 5, 3], 10, 5, 10],
      ['highLoad', 5, [1, 10, 5], 20, 10, 20],
    ]);
  });

  it('make what they are for, after a way through JSON', async () => {
    const { embeddings, embeddingsSmall, logs, tools, ui, chat } = throughJson(presets);
    for (const preset of [embeddings, embeddingsSmall]) {
      const embedder = createEmbedder({ ...preset, call: (texts) => of(texts.map(() => [1])) });
      expect(await embedder.embedAsync('a')).toEqual(new Float32Array([1]));
      embedder.close();
    }
    const written: string[][] = [];
    of('a', 'b')
      .pipe(batch({ ...logs.batch, weigh: (line: string) => line.length }))
      .subscribe((lines) => written.push(lines));
    expect(written).toEqual([['a', 'b']]);
    const shown: string[] = [];
    of('a', 'b')
      .pipe(coalesce({ ...ui, merge: (first, next) => first + next }))
      .subscribe((text) => shown.push(text));
    expect(shown).toEqual(['ab']);
    const kept: number[] = [];
    range(1, 10_003)
      .pipe(backpressure({ ...logs.backpressure, ready: timer(1).pipe(map(() => true)) }))
      .subscribe((line) => kept.push(line));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect([kept.length, kept[0]]).toEqual([10_000, 4]);
    createToolRunner({ ...tools, tools: [] }).close();
    createModelCaller({ ...modelCallerOptions(read(chat).model), limiter: createAccount(read(chat).limits), call: () => of(1) }).close();
  });

  it('for papers let so many requests go at once, and then so many in a second', () => {
    virtualTime(({ flush, now }) => {
      const account = createAccount({ ...presets.paper.production.limits, concurrency: Infinity, headroom: 1 });
      const sent: number[] = [];
      for (let i = 0; i < 20; i++) account.run(() => of(sent.push(now()))).subscribe();
      flush();
      expect(sent).toEqual([...Array<number>(10).fill(0), ...Array.from({ length: 10 }, (_, i) => 200 * (i + 1))]);
      account.close();
    });
  });

  it('share one account', () => {
    virtualTime(({ advance }) => {
      const limiter = createAccount({ concurrency: 6 });
      const callers = [0, 1].map(() => {
        const { limits, model } = read(presets.llmProperties.production);
        return createModelCaller({ ...modelCallerOptions(model), concurrency: limits?.concurrency ?? 0, limiter, call: () => NEVER });
      });
      for (const caller of callers) for (let i = 0; i < 5; i++) caller.call('a').subscribe({ error: () => undefined });
      advance(1);
      expect([...callers.map((caller) => caller.snapshot().executing), limiter.executing]).toEqual([4, 2, 6]);
      for (const caller of callers) caller.close();
      expect(limiter.executing).toBe(0);
      limiter.close();
    });
  });
});
