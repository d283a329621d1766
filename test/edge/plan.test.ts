import { describe, expect, it } from 'vitest';
import { EXPECT_DEFAULTS } from '../../src/edge/config/plan.js';
import { type Config, parseConfig, planOf } from '../../src/edge/index.js';
import { presets } from '../../src/pipelines/presets.js';
import { explainThroughput } from '../../src/pipelines/throughput.js';

describe('the plan of a configuration', () => {
  const config: Config = {
    limits: { concurrency: 10, lanes: ['user'] },
    stages: [
      { name: 'cut', chunk: { field: 'text' } },
      { name: 'ask', concurrency: 5, scope: 'perBatch', expect: { callsPerItem: 2, secondsPerCall: 3 } },
      { name: 'sum', expect: { itemsPerDocument: 1, inputTokens: 10, outputTokens: 0 } },
    ],
    expect: { documents: 50, secondsPerCall: 7, inputTokens: 800 },
  };

  it('takes what a stage says before what is said for all, and what is stated before both', () => {
    const { plan, assumed } = planOf(config);
    expect(plan).toEqual({
      documents: 50,
      batches: { concurrency: 4 },
      stages: [
        { name: 'cut', itemsPerDocument: 1, callsPerItem: 0 },
        { name: 'ask', concurrency: 5, scope: 'perBatch', itemsPerDocument: 10, callsPerItem: 2, secondsPerCall: 3, tokensPerCall: 1100 },
        { name: 'sum', itemsPerDocument: 1, secondsPerCall: 7, tokensPerCall: 10 },
      ],
      limits: config.limits,
    });
    expect(assumed).toEqual(['expect.itemsPerDocument = 10', 'expect.outputTokens = 300']);
    const stated = planOf(config, { documents: 5, itemsPerDocument: 30, secondsPerCall: 1, inputTokens: 1, outputTokens: 1 });
    expect(stated.plan.documents).toBe(5);
    expect(
      stated.plan.stages.map(({ itemsPerDocument, secondsPerCall, tokensPerCall }) => [itemsPerDocument, secondsPerCall, tokensPerCall]),
    ).toEqual([
      [1, undefined, undefined],
      [30, 1, 2],
      [30, 1, 2],
    ]);
    expect(stated.assumed).toEqual([]);
  });

  it('of limits alone is one call for each document, or for each of its items', () => {
    const { plan } = planOf({ limits: { concurrency: 2 } }, { documents: 10, itemsPerDocument: 3, secondsPerCall: 1 });
    expect(explainThroughput(plan)).toMatchObject({ calls: 30, makespanMs: 15_000, bottleneck: { setting: 'limits.concurrency' } });
  });

  it('of every preset that is a configuration can be explained, with nothing but assumptions', () => {
    for (const preset of [presets.chat, ...Object.values(presets.llmProperties), ...Object.values(presets.paper)]) {
      const parsed = parseConfig(JSON.stringify(preset));
      const { plan, assumed } = planOf('value' in parsed ? parsed.value : {});
      expect(explainThroughput(plan)).toMatchObject({ documents: EXPECT_DEFAULTS.documents });
      expect(explainThroughput(plan).makespanMs).toBeGreaterThan(0);
      expect(assumed).toContain('expect.documents = 1000');
    }
  });
});
