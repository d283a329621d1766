import { describe, expect, it } from 'vitest';
import { FaultWatch } from '../../operators/kernel/fault-watch.js';

const same = (): Error => new Error('no connection to the database');

/** A batch cut into two parts that have both failed, and so many items that failed alone. */
function watched(alone: number, error: (i: number) => unknown = same): FaultWatch {
  const watch = new FaultWatch();
  watch.failed(error(0), 20, false);
  watch.cut(2);
  watch.failed(error(1), 10, true);
  watch.failed(error(2), 10, true);
  for (let i = 0; i < alone; i++) watch.failed(error(3 + i), 1, false);
  return watch;
}

describe('FaultWatch', () => {
  it('gives a batch up once eight items have failed alone with the same error', () => {
    expect(watched(7).isHopeless).toBe(false);
    expect(watched(8).isHopeless).toBe(true);
    expect(watched(8).alone).toBe(8);
  });

  it('never gives up a batch of which something has succeeded, or whose errors say what they are about', () => {
    const watch = watched(7);
    watch.ruleOut();
    watch.failed(same(), 1, false);
    expect(watch.isHopeless).toBe(false);
    expect(watch.alone).toBe(0);
  });

  it('waits until every part the batch was cut into first has failed', () => {
    const watch = new FaultWatch();
    watch.cut(2);
    watch.failed(same(), 30, true);
    for (let i = 0; i < 20; i++) watch.failed(same(), 1, false);
    expect(watch.isHopeless).toBe(false);
    watch.failed(same(), 30, true);
    expect(watch.isHopeless).toBe(true);
  });

  it.each<[string, (i: number) => unknown]>([
    ['messages', (i) => new Error(`item ${String(i)} is empty`)],
    ['names', (i) => Object.assign(new Error('no'), { name: `E${String(i)}` })],
    ['codes', (i) => Object.assign(new Error('no'), { code: `E${String(i)}` })],
    ['statuses', (i) => Object.assign(new Error('no'), { status: 200 + i })],
    ['values', (i) => i],
    ['types', (i) => (i === 3 ? 'undefined' : undefined)],
  ])('sees a difference between errors with different %s', (_name, error) => {
    expect(watched(8, error).isHopeless).toBe(false);
  });

  it.each<[string, () => unknown]>([
    ['errors', same],
    ['strings', () => 'no'],
    ['nothing', () => undefined],
    ['null', () => null],
    ['symbols', () => Symbol('no')],
    ['objects without a message', () => ({})],
    ['objects with fields of their own', () => ({ message: 'no', code: { deep: Math.PI }, name: () => 'no' })],
    ['objects without a prototype', () => Object.create(null) as object],
  ])('sees none between equal %s', (_name, error) => {
    expect(watched(8, error).isHopeless).toBe(true);
  });
});
