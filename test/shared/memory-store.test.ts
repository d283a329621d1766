import fc from 'fast-check';
import { asyncScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { CreditQuestion, MemoryStore, SavedCredit } from '../../operators/index.js';
import { memoryStore } from '../../operators/index.js';
import { conversation, sayTo } from './support/messages.js';
import { questionOf } from './support/questions.js';

/** A clock that is set by hand. */
function handClock() {
  const clock = { time: 0, now: () => clock.time, schedule: asyncScheduler.schedule.bind(asyncScheduler) };
  return clock;
}

function isGranted(store: MemoryStore, over?: Partial<CreditQuestion>): boolean {
  return 'credit' in store.ask(questionOf(over));
}

describe('a saved store', () => {
  it('answers as the one that was saved', () => {
    fc.assert(
      fc.property(conversation, fc.nat(), fc.boolean(), (all, cut, startsEmpty) => {
        const clock = handClock();
        const first = memoryStore({ scheduler: clock, startsEmpty });
        let second: MemoryStore | undefined;
        for (const [i, said] of all.entries()) {
          clock.time += said.afterMs;
          if (i === cut % all.length)
            second = memoryStore({ scheduler: clock, restore: JSON.parse(JSON.stringify(first.save())) as SavedCredit });
          const answer = sayTo(first, said);
          if (second) expect(sayTo(second, said)).toEqual(answer);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('is a copy', () => {
    const clock = handClock();
    const store = memoryStore({ scheduler: clock });
    isGranted(store);
    const saved = store.save();
    const text = JSON.stringify(saved);
    const restored = memoryStore({ scheduler: clock, restore: saved });
    isGranted(restored, { number: 2 });
    isGranted(store, { owner: 'other' });
    expect(JSON.stringify(saved)).toBe(text);
  });

  it('continues in time on a clock that shows less', () => {
    const clock = handClock();
    clock.time = 1_000_000;
    const store = memoryStore({ scheduler: clock });
    expect(isGranted(store, { least: [1000], most: [1000] })).toBe(true);
    clock.time = 50;
    const restored = memoryStore({ scheduler: clock, restore: store.save() });
    expect(isGranted(restored, { number: 2 })).toBe(false);
    clock.time = 50 + 1200;
    expect(isGranted(restored, { number: 3 })).toBe(true);
  });

  it('keeps a pause without an end', () => {
    const store = memoryStore({ scheduler: handClock() });
    store.hold('account', Infinity);
    const restored = memoryStore({ scheduler: handClock(), restore: JSON.parse(JSON.stringify(store.save())) as SavedCredit });
    expect(isGranted(restored)).toBe(false);
    restored.hold('account', 0);
    expect(isGranted(restored, { number: 2 })).toBe(true);
  });

  it('remembers that what was granted before is not known', () => {
    const clock = handClock();
    const restored = memoryStore({ scheduler: clock, restore: memoryStore({ scheduler: clock, startsEmpty: true }).save() });
    expect(isGranted(restored, { least: [1000], most: [1000] })).toBe(false);
  });
});

describe('a store that starts empty', () => {
  it('lets come in evenly what another one may have granted', () => {
    const clock = handClock();
    const store = memoryStore({ scheduler: clock, startsEmpty: true });
    let granted = 0;
    for (let number = 1; clock.time < 1000; clock.time += 1)
      if (isGranted(store, { number: number++, least: [10], most: [10] })) granted += 10;
    expect(granted).toBeGreaterThan(600);
    expect(granted).toBeLessThan(1000);
  });

  it('begins a scope that is used later with everything', () => {
    const clock = handClock();
    const store = memoryStore({ scheduler: clock, startsEmpty: true });
    expect(isGranted(store, { least: [1000], most: [1000] })).toBe(false);
    clock.time += 5000;
    expect(isGranted(store, { scope: 'later', least: [1000], most: [1000] })).toBe(true);
  });
});
