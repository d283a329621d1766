/* oxlint-disable no-restricted-imports -- the parts of a shared limit are not exported */

import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { CreditLedger } from '../../operators/kernel/credit/credit-ledger.js';
import type { SavedCredit } from '../../operators/kernel/credit/saved-credit.js';
import { isSavedCredit, liveCopy, plainCopy } from '../../operators/kernel/credit/saved-credit.js';
import { corrections, limit, question } from '../support/credit.js';

const EPOCH = 1_790_000_000_000;

/** As a file keeps it. */
const viaJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('a copy for JSON', () => {
  it.each([
    ['a number', 1.5, 1.5],
    ['0', 0, 0],
    ['a text', 'a', 'a'],
    ['true', true, true],
    ['null', null, null],
    ['undefined', undefined, undefined],
    ['infinity as the largest number', Infinity, Number.MAX_VALUE],
    ['its opposite as the smallest number', -Infinity, -Number.MAX_VALUE],
    ['the largest number', Number.MAX_VALUE, Number.MAX_VALUE],
    ['a list', [1, 'a', Infinity], [1, 'a', Number.MAX_VALUE]],
    ['a list with gaps', new Array(2), [undefined, undefined]],
    [
      'a map as pairs',
      new Map<unknown, unknown>([
        ['a', Infinity],
        ['b', new Map([['c', 1]])],
      ]),
      [
        ['a', Number.MAX_VALUE],
        ['b', [['c', 1]]],
      ],
    ],
    ['the fields of an object', { a: -Infinity, b: { c: [new Map()] } }, { a: -Number.MAX_VALUE, b: { c: [[]] } }],
  ])('has %s', (_, value, plain) => {
    expect(plainCopy(value)).toEqual(plain);
  });

  it('shares nothing with what it was made of', () => {
    const [list, map, fields] = [[1], new Map([['a', [1]]]), { a: [1] }];
    const copy = plainCopy([list, map, fields]) as [number[], [string, number[]][], { a: number[] }];
    list.push(2);
    map.get('a')?.push(2);
    fields.a.push(2);
    expect(copy).toEqual([[1], [['a', [1]]], { a: [1] }]);
  });

  it('is a plain object, whatever class the original has', () => {
    class Counted {
      sum = 1;
    }
    expect(Object.getPrototypeOf(plainCopy(new Counted()))).toBe(Object.prototype);
  });
});

describe('a copy from JSON', () => {
  it.each([
    ['the largest number as infinity', Number.MAX_VALUE, Infinity],
    ['the smallest number as its opposite', -Number.MAX_VALUE, -Infinity],
    ['large numbers as they are', [1e308, -1e308], [1e308, -1e308]],
    ['any other value', { a: [1, 'b', null] }, { a: [1, 'b', null] }],
  ])('has %s', (_, value, live) => {
    expect(liveCopy(value)).toEqual(live);
  });

  it('is what was copied for JSON, but for maps', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(0, 1, -5.5, Infinity, -Infinity, 'text', true, null),
        fc.array(tie('any')),
        fc.dictionary(fc.string(), tie('any'), { noNullPrototype: true }),
      ),
    })).any;
    fc.assert(
      fc.property(value, (each) => {
        expect(liveCopy(viaJson(plainCopy(each)))).toEqual(each);
      }),
    );
  });
});

/** A state in which everything occurs that a ledger keeps. */
function savedState(): SavedCredit {
  const ledger = new CreditLedger({ isLost: true });
  const limits = [limit({ amount: 10, windowMs: 1000, burst: 2 }), limit({ amount: 100, windowMs: 86_400_000, endsInMs: 5000 })];
  const ask = (owner: string, lane: number, least: number, lessons?: Record<string, number>) =>
    ledger.ask(question({ owner, lane, limits, floors: [0, 0.1], least: [least], lessons }), EPOCH);
  // Since then nothing can have been lost.
  ledger.ask(question({ owner: 'early', limits, least: [10] }), EPOCH - 10_000);
  ask('a', 0, 1);
  ask('b', 1, 10, { [limits[0]?.key ?? '']: 5 });
  ask('c', 0, 20);
  ledger.correct(corrections({ owner: 'd', limits, corrections: [{ credit: EPOCH, lane: 0, amounts: [1] }] }), EPOCH);
  ledger.hold('held', 1000, EPOCH);
  return viaJson(ledger.save(EPOCH)) as SavedCredit;
}

type Path = readonly (string | number)[];

const places = (...paths: readonly Path[]): { readonly path: Path }[] => paths.map((path) => ({ path }));

/** A copy of a state with another value at one place; without the value, that field is missing. */
function changed(state: unknown, [key = '', ...rest]: Path, ...value: readonly [] | readonly [unknown]): unknown {
  const isLast = rest.length === 0;
  if (Array.isArray(state)) {
    const list: readonly unknown[] = state;
    return list.map((each, i) => (i !== key ? each : isLast ? value[0] : changed(each, rest, ...value)));
  }
  const fields = Object.entries(state as Record<string, unknown>).filter(([name]) => name !== key || !isLast || value.length > 0);
  const all = Object.fromEntries(fields);
  if (!isLast) all[key] = changed(all[key], rest, ...value);
  else if (value.length > 0) all[key] = value[0];
  return all;
}

describe('a saved state', () => {
  // Not while the tests are collected: a file that does not load is no failed test.
  let state: SavedCredit;
  beforeAll(() => {
    state = savedState();
  });
  const scope: Path = ['scopes', 0, 1];
  const window: Path = [...scope, 'windows', 0];
  const waiting: Path = [...scope, 'waiting', 0];
  const owner: Path = [...scope, 'owners', 0];

  it('is what a ledger saves, and what it saves before it was asked', () => {
    expect(isSavedCredit(state)).toBe(true);
    expect(isSavedCredit(viaJson(new CreditLedger({ isLost: false }).save(EPOCH)))).toBe(true);
    expect(isSavedCredit({ at: 0, scopes: [] })).toBe(true);
  });

  it.each([undefined, null, 0, 1, 'state', true, [], {}, { at: 0 }, { scopes: [] }])('is not %j', (value) => {
    expect(isSavedCredit(value)).toBe(false);
  });

  it('may lack what a ledger has not known', () => {
    expect(isSavedCredit(changed(state, ['lostAt']))).toBe(true);
    expect(isSavedCredit(changed(state, [...scope, 'lessons'], {}))).toBe(true);
    expect(isSavedCredit(changed(state, [...scope, 'owed'], [0, null, undefined, 1]))).toBe(true);
    expect(isSavedCredit(changed(state, [...scope, 'waitedAt'], []))).toBe(true);
    expect(isSavedCredit(changed(state, [...scope, 'windows'], []))).toBe(true);
    expect(isSavedCredit(changed(state, [...window, 1, 'parts'], []))).toBe(true);
    expect(isSavedCredit(changed(state, [...window, 1, 'late'], undefined))).toBe(true);
    expect(isSavedCredit(changed(state, [...owner, 1, 'answer']))).toBe(true);
    expect(isSavedCredit(changed(state, [...waiting, 1, 'least'], []))).toBe(true);
    expect(isSavedCredit(changed(state, [...waiting, 1, 'limits'], []))).toBe(true);
  });

  // Numbers that must be there.
  it.each(
    places(
      ['at'],
      ...['epoch', 'heldUntil', 'keptUntil', 'lessonAt'].map((name) => [...scope, name]),
      ...['dueAt', 'lane', 'seenAt', 'since'].map((name) => [...waiting, 1, name]),
      ...['amount', 'column', 'fromLane'].map((name) => [...waiting, 1, 'limits', 1, name]),
      ...['asked', 'corrected', 'seenAt'].map((name) => [...owner, 1, name]),
    ),
  )('has a finite number at $path', ({ path }) => {
    expect(isSavedCredit(changed(state, path, 0))).toBe(true);
    for (const value of ['0', null, undefined, Number.NaN, Infinity, [0], {}])
      expect(isSavedCredit(changed(state, path, value))).toBe(false);
    expect(isSavedCredit(changed(state, path))).toBe(false);
  });

  // Numbers of which there may be any.
  it.each(
    places(
      ['lostAt'],
      [...scope, 'lessons', 'a limit'],
      [...scope, 'owed', 0],
      [...scope, 'waitedAt', 0],
      [...window, 1, 'debt'],
      [...window, 1, 'parts', 0, 0],
      [...window, 1, 'parts', 0, 1],
      [...waiting, 1, 'least', 0],
      [...owner, 1, 'answer', 'left', 0],
    ),
  )('has no other value than a number at $path', ({ path }) => {
    expect(isSavedCredit(changed(state, path, 0))).toBe(true);
    for (const value of ['0', true, Number.NaN, Infinity, [0], {}]) expect(isSavedCredit(changed(state, path, value))).toBe(false);
  });

  it.each(
    places(
      ['scopes'],
      [...scope, 'owed'],
      [...scope, 'waitedAt'],
      [...scope, 'windows'],
      [...scope, 'waiting'],
      [...scope, 'owners'],
      [...window, 1, 'parts'],
      [...window, 1, 'parts', 0],
      [...waiting, 1, 'least'],
      [...waiting, 1, 'limits'],
      [...owner, 1, 'answer', 'left'],
    ),
  )('has a list at $path', ({ path }) => {
    for (const value of [undefined, null, 0, 'list', {}, { length: 0 }, { every: true }])
      expect(isSavedCredit(changed(state, path, value))).toBe(false);
  });

  it.each(places(['scopes', 0], window, waiting, owner))('has a name with one value at $path', ({ path }) => {
    for (const value of [undefined, null, 'ab', {}, [], ['a'], [0, {}], ['a', {}, 0], ['a', {}]])
      expect(isSavedCredit(changed(state, path, value))).toBe(false);
    // The right value, and something wrong with the pair.
    const pair = path.reduce<unknown>((at, key) => (at as Record<string | number, unknown>)[key], state) as [string, unknown];
    expect(isSavedCredit(changed(state, path, ['other', pair[1]]))).toBe(true);
    for (const value of [[0, pair[1]], [...pair, 0], [pair[0]], { 0: pair[0], 1: pair[1], length: 2 }])
      expect(isSavedCredit(changed(state, path, value))).toBe(false);
  });

  it('counts a part of a window by its position and its amount', () => {
    for (const part of [[], [1], [1, 2, 3]]) expect(isSavedCredit(changed(state, [...window, 1, 'parts', 0], part))).toBe(false);
  });

  it('has limits with keys that are texts', () => {
    for (const key of [undefined, null, 0, ['a']])
      expect(isSavedCredit(changed(state, [...waiting, 1, 'limits', 0, 'key'], key))).toBe(false);
    expect(isSavedCredit(changed(state, [...waiting, 1, 'limits', 0], null))).toBe(false);
  });

  it('has an answer with what is left, where it has one', () => {
    for (const answer of [null, 0, 'answer', {}, { left: null }])
      expect(isSavedCredit(changed(state, [...owner, 1, 'answer'], answer))).toBe(false);
  });

  it('has lessons that are all numbers', () => {
    expect(isSavedCredit(changed(state, [...scope, 'lessons'], { a: 1, b: '2' }))).toBe(false);
  });

  it('is refused as a whole for one fault in any of its rows', () => {
    const [first] = state.scopes;
    expect(isSavedCredit({ ...state, scopes: [first, first] })).toBe(true);
    expect(isSavedCredit({ ...state, scopes: [first, ['b', {}]] })).toBe(false);
  });
});
