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
    ['words in their messages', (i) => new Error(`${'abcdefghijkl'.charAt(i)} is empty`)],
    ['words of sixteen letters', (i) => new Error(`${'abcdefghijkl'.charAt(i).repeat(16)} is empty`)],
    ['numbers of five digits', (i) => new Error(`row ${String(10_000 + i)} is empty`)],
    ['amounts', (i) => new Error(`${String(i)} missing cells`)],
    ['long names of items', (i) => new Error(`annual-report-${String(i)} is empty`)],
    ['names of fifteen letters and digits', (i) => new Error(`chapter${String(i % 10)}summary is empty`)],
    ['numbers, thrown', (i) => 1_000_000 + i],
    ['names', (i) => Object.assign(new Error('no'), { name: `E${String(i)}` })],
    ['codes', (i) => Object.assign(new Error('no'), { code: `E${String(i)}` })],
    ['statuses', (i) => Object.assign(new Error('no'), { status: 200 + i })],
    ['values', (i) => i],
    ['types', (i) => (i === 3 ? 'undefined' : undefined)],
  ])('sees a difference between errors with different %s', (_name, error) => {
    expect(watched(8, error).isHopeless).toBe(false);
  });

  const hex = (i: number, digits: number): string => (0x1234567 * (i + 1)).toString(16).padStart(digits, '5a');
  it.each<[string, (i: number) => string]>([
    ['a UUID', (i) => `no route (request 1b4e28ba-2fa1-11d2-883f-${hex(i, 12)})`],
    ['the middle of a UUID', (i) => `no route (request 1b4e28ba-2fa1-${String(1000 + i)}-883f-0123456789ab)`],
    ['a number of six digits', (i) => `no route (request no. ${String(100_000 + i)})`],
    ['a trace id', (i) => `no route, trace=${hex(i, 32)}`],
    ['a short commit-like id', (i) => `no route [${hex(i, 8)}]`],
    ['an upper-case id', (i) => `no route [${hex(i, 12).toUpperCase()}]`],
    ['an id with a prefix', (i) => `no route (req_${hex(i, 24)})`],
    ['an id of letters and digits', (i) => `no route (req_011CSHoEeqs5C35K2UUqR${String(i)}y)`],
    ['a ULID', (i) => `no route 01ARZ3NDEKTSV4RRFFQ69G5F${String(i).padStart(2, '0')}`],
    ['an address', (i) => `no route at 0x${hex(i, 6)}`],
    ['a time of day', (i) => `[12:59:${String(10 + i)}] no route`],
    ['an ISO time', (i) => `2026-11-21T12:31:${String(10 + i)}.${String(100 + i)}Z no route`],
    ['a time with a comma', (i) => `2026-11-21 12:31:10,${String(100 + i)} no route`],
    ['a time in ms', (i) => `no route since ${String(1_795_264_282_000 + i)}`],
    ['a time in seconds', (i) => `no route since ${String(1_795_264_282 + i)}.${String(i)}`],
    ['a compact time', (i) => `20261121T1231${String(10 + i)}Z no route`],
    ['a duration in ms', (i) => `no route after ${String(5000 + i)}ms`],
    ['a duration in seconds', (i) => `no route after ${String(5 + i / 8)} s`],
    ['all of them', (i) => `12:31:${String(10 + i)} ${hex(i, 32)} no route after ${String(i)} ms (req_${hex(i, 24)})`],
  ])('sees none between messages that differ in %s, of an error or thrown as they are', (_name, message) => {
    expect(new Set(Array.from({ length: 11 }, (_, i) => message(i))).size).toBe(11);
    expect(watched(8, (i) => new Error(message(i))).isHopeless).toBe(true);
    expect(watched(8, message).isHopeless).toBe(true);
    // What follows such a part still counts.
    expect(watched(8, (i) => new Error(`${message(i)} for ${'abcdefghijkl'.charAt(i)}`)).isHopeless).toBe(false);
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
