import { map, Observable, of, timer, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { StoreUnderTest } from '../../marbles/index.js';
import { creditStoreLaws } from '../../marbles/index.js';
import { storeLaws } from '../../marbles/store-laws/rules.js';
import type { Credit, CreditCorrections, CreditQuestion, CreditStore, MemoryStore, MemoryStoreOptions } from '../../operators/index.js';
import { memoryStore } from '../../operators/index.js';
import { isGranted } from '../support/credit.js';
import { sized } from '../support/deep.js';

const TITLES = storeLaws.map(({ title }) => title);

interface InMemory extends StoreUnderTest {
  readonly store: MemoryStore;
  readonly scheduler: VirtualTimeScheduler;
}

function inMemory(options: MemoryStoreOptions = {}): InMemory {
  const scheduler = new VirtualTimeScheduler();
  let store = memoryStore({ scheduler, ...options });
  return {
    store,
    scheduler,
    advance: (ms) => {
      scheduler.frame += ms;
    },
    restart: () => (store = memoryStore({ scheduler, restore: JSON.parse(JSON.stringify(store.save())) as never })),
  };
}

const STORES: Readonly<Record<string, () => StoreUnderTest>> = {
  'a store in memory': () => inMemory(),
  'one that starts empty': () => inMemory({ startsEmpty: true }),
  'one that was restored': () => inMemory({ restore: memoryStore({ scheduler: new VirtualTimeScheduler() }).save() }),
};

describe.each(Object.entries(STORES))('%s', (_, make) => {
  it.each(TITLES)('%s', async (title) => {
    await expect(creditStoreLaws(make, { only: [title], schedules: sized(20, 300) })).resolves.toEqual([title]);
  });
});

describe('a store that answers later', () => {
  it('is held against the same laws when it answers by promises', async () => {
    const make = (): StoreUnderTest => {
      const { advance, store } = inMemory();
      return {
        store: {
          ask: async (question) => store.ask(question),
          correct: async (all) => {
            store.correct(all);
          },
          hold: async (scope, ms) => {
            store.hold(scope, ms);
          },
        },
        ...(advance && { advance }),
      };
    };
    const held = await creditStoreLaws(make, { schedules: 3 });
    expect(held).toEqual(TITLES.filter((title) => title !== 'continues after a restart'));
  });

  it('gets virtual time while it is asked', async () => {
    const make = (): StoreUnderTest => {
      const { scheduler, store } = inMemory();
      const late = <A>(decide: () => A): Observable<A> => timer(2, scheduler).pipe(map(decide));
      return {
        store: {
          ask: (question) => late(() => store.ask(question)) as never,
          correct: (all) =>
            late(() => {
              store.correct(all);
            }),
          hold: (scope, ms) =>
            late(() => {
              store.hold(scope, ms);
            }),
        },
        advance: (ms) => {
          scheduler.maxFrames = scheduler.frame + ms;
          scheduler.flush();
          scheduler.frame = scheduler.maxFrames;
        },
      };
    };
    await expect(creditStoreLaws(make, { schedules: 3 })).resolves.toContain('serves 64 owners');
  });
});

/** A store with one fault. */
function faulty(fault: (store: MemoryStore, scheduler: VirtualTimeScheduler) => Partial<CreditStore>): () => StoreUnderTest {
  return () => {
    const { advance, scheduler, store } = inMemory();
    return { store: { ...store, ...fault(store, scheduler) }, ...(advance && { advance }) };
  };
}

/** Changes each question before the store sees it. */
const asking = (change: (question: CreditQuestion) => Partial<CreditQuestion>): (() => StoreUnderTest) =>
  faulty((store) => ({ ask: (question) => store.ask({ ...question, ...change(question) }) }));

/** Changes what is granted after the store has charged it. */
const granting = (change: (credit: Credit, question: CreditQuestion) => Partial<Credit>): (() => StoreUnderTest) =>
  faulty((store) => ({
    ask: (question) => {
      const answer = store.ask(question);
      return isGranted(answer) ? { ...answer, ...change(answer, question) } : answer;
    },
  }));

/** A number that no question had before. */
function fresh(): () => number {
  let number = 0;
  return () => ++number;
}

const SAME_NUMBER = 'gives the same number of an owner the same answer';
const WINDOW = 'gives no window of any limit more than its amount';
const HOLD = 'grants nothing during a hold, and keeps the longest';
const APART = 'keeps scopes and owners apart, whatever their names';
const BOOKS = 'books what credits have cost, and the same number once';
const IN_ONE_STEP = 'charges several limits in one step, or none';
const LEAST = 'gives all of `least`, or lets the owner wait';

const FAULTS: readonly (readonly [fault: string, law: string, says: string, make: () => StoreUnderTest])[] = [
  [
    'charges a repeated question again',
    SAME_NUMBER,
    'a repeated question is charged again',
    faulty((store) => {
      const answers = new Map<string, unknown>();
      const next = fresh();
      return {
        ask: (question) => {
          const key = JSON.stringify([question.scope, question.owner, question.number]);
          const answer = store.ask({ ...question, number: next() });
          if (!answers.has(key)) answers.set(key, answer);
          return answers.get(key) as never;
        },
      };
    }),
  ],
  [
    'forgets numbers of questions',
    SAME_NUMBER,
    'got {"credit"',
    faulty((store) => {
      const next = fresh();
      return { ask: (question) => store.ask({ ...question, number: next() }) };
    }),
  ],
  [
    'answers a number only until the next question of any owner',
    SAME_NUMBER,
    'and {',
    faulty((store) => {
      let last = '';
      const shifts = new Map<string, number>();
      return {
        ask: (question) => {
          const who = JSON.stringify([question.scope, question.owner]);
          if (last !== who) shifts.set(who, (shifts.get(who) ?? 0) + 1000);
          last = who;
          return store.ask({ ...question, number: question.number + (shifts.get(who) ?? 0) });
        },
      };
    }),
  ],
  [
    'leaves out the guard at the edge of a window',
    'gives a window no more at its edge',
    'counted from each grant',
    asking(() => ({ guardMs: 0 })),
  ],
  ['leaves out the guard, in drawn schedules', WINDOW, 'counted from each grant', asking(() => ({ guardMs: 0 }))],
  [
    'begins a new window at fixed times',
    WINDOW,
    'a window of',
    faulty((store, scheduler) => ({
      ask: (question) => {
        const limits = question.limits.map((limit) => ({ ...limit, endsInMs: limit.windowMs - (scheduler.now() % limit.windowMs) }));
        return store.ask({ ...question, limits });
      },
    })),
  ],
  [
    'keeps only the first limit',
    WINDOW,
    'a window of',
    faulty((store) => ({
      ask: (question) => store.ask({ ...question, limits: question.limits.slice(0, 1) }),
    })),
  ],
  ['ignores holds', HOLD, 'credit is granted during a hold', faulty(() => ({ hold: () => undefined }))],
  [
    'lets a shorter hold end a longer one',
    HOLD,
    'a shorter hold ends a longer one',
    faulty((store) => ({
      hold: (scope, ms) => {
        store.hold(scope, 0);
        store.hold(scope, ms);
      },
    })),
  ],
  [
    'never ends a hold',
    HOLD,
    'a hold of 0 does not end a hold',
    faulty((store) => ({
      hold: (scope, ms) => {
        if (ms > 0) store.hold(scope, ms);
      },
    })),
  ],
  [
    'holds all scopes',
    HOLD,
    'a hold of another scope stops this one',
    faulty((store) => ({
      hold: (scope, ms) => {
        store.hold(scope, ms);
        store.hold('another', ms);
      },
    })),
  ],
  ['mixes scopes', APART, 'what was granted in another scope is missing', asking(() => ({ scope: 'one' }))],
  ['ignores the case of scopes', APART, 'is missing in "Account"', asking(({ scope }) => ({ scope: scope.toLowerCase() }))],
  ['trims the names of owners', APART, 'granted 1, asked for 3', asking(({ owner }) => ({ owner: owner.trim() }))],
  ['cuts names', APART, 'granted 1, asked for 4', asking(({ owner }) => ({ owner: owner.slice(0, 1) }))],
  ['ignores floors', 'keeps the floors of lanes', 'a lane with a floor of', asking(({ floors }) => ({ floors: floors.map(() => 0) }))],
  ['ignores lanes', 'lets the more urgent lane go first', 'got what the urgent owner waits for', asking(() => ({ lane: 0 }))],
  [
    'applies old lessons',
    'keeps the newest lesson',
    'lessons came from owners that had heard of all others',
    faulty((store) => {
      const epochs = new Map<string, number>();
      return {
        ask: (question) => {
          const answer = store.ask({ ...question, epoch: epochs.get(question.scope) ?? 0 });
          epochs.set(question.scope, answer.epoch);
          return answer;
        },
      };
    }),
  ],
  [
    'tells lessons and does not keep them',
    'keeps the newest lesson',
    'amount that was learned',
    faulty((store) => {
      const others = memoryStore({ scheduler: new VirtualTimeScheduler() });
      return {
        ask: (question) => {
          const { epoch, lessons } = others.ask(question);
          const { lessons: _, ...rest } = question;
          return { ...store.ask(rest), epoch, lessons };
        },
      };
    }),
  ],
  ['loses corrections', BOOKS, 'what came back is not there', faulty(() => ({ correct: () => undefined }))],
  [
    'books corrections again',
    BOOKS,
    'a correction was booked twice; a window of',
    faulty((store) => {
      const next = fresh();
      return {
        correct: (all) => {
          store.correct({ ...all, number: next() });
        },
      };
    }),
  ],
  [
    'books the numbers of corrections of all owners in one',
    BOOKS,
    'another owner with the same number is not booked',
    faulty((store) => ({
      correct: (all) => {
        store.correct({ ...all, owner: 'one' });
      },
    })),
  ],
  [
    'books corrections of credits whose window is over',
    'ignores corrections of a credit that it does not know',
    'whose window is over',
    faulty((store, scheduler) => ({
      correct: (all) => {
        store.correct({ ...all, corrections: all.corrections.map((each) => ({ ...each, credit: scheduler.now() })) });
      },
    })),
  ],
  ['grants less than least', LEAST, 'granted', granting(({ amounts }) => ({ amounts: amounts.map((amount) => amount * 0.9) }))],
  ['grants more than was asked for', LEAST, 'granted', asking(({ most }) => ({ most: most.map((amount) => amount * 2 + 1) }))],
  ['leaves out a unit', LEAST, 'granted NaN', granting(({ amounts }) => ({ amounts: amounts.slice(0, 1) }))],
  [
    'charges the limits that have enough of a question that waits',
    IN_ONE_STEP,
    'is charged for the limit that had enough',
    faulty((store) => {
      const next = fresh();
      return {
        ask: (question) => {
          const answer = store.ask(question);
          if (!isGranted(answer))
            for (const limit of question.limits) {
              const least = question.least.map((amount, column) => (column === limit.column ? amount : 0));
              store.ask({ ...question, owner: `part ${String(next())}`, lane: 0, limits: [limit], least, most: least });
            }
          return answer;
        },
      };
    }),
  ],
  [
    'grants the last question again when an older one comes late',
    'grants nothing to a question that a later one has overtaken',
    'the credit would be lost',
    faulty((store) => {
      const next = fresh();
      return { ask: (question) => store.ask({ ...question, number: next() }) };
    }),
  ],
  [
    'spends a limit with a burst at once',
    'spreads a limit that has a burst',
    'are granted at once',
    asking(({ limits }) => ({ limits: limits.map(({ burst: _, ...limit }) => limit) })),
  ],
  [
    'grants half of a limit',
    'lets one owner use what a limit has',
    'of the amount',
    asking(({ limits }) => ({ limits: limits.map((limit) => ({ ...limit, amount: limit.amount / 2 })) })),
  ],
  [
    'serves one owner at a time',
    'serves 64 owners',
    'got nothing',
    faulty((store) => {
      let first: string | undefined;
      return {
        ask: (question) => {
          first ??= question.owner === 'first' ? undefined : question.owner;
          if (first === undefined || first === question.owner) return store.ask(question);
          return { waitMs: 100, holdMs: 0, epoch: 0, lessons: {}, left: question.least.map(() => 0) };
        },
      };
    }),
  ],
];

describe('a faulty store', () => {
  it.each(FAULTS)('that %s breaks a law', async (_, law, says, make) => {
    const error: unknown = await creditStoreLaws(make, { name: 'this store', only: [law] }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'LawBrokenError', law, operator: 'this store' });
    const { message } = error as Error;
    expect(message).toContain(`this store breaks the law "${law}": step `);
    expect(message).toContain(says);
    expect(message).toMatch(/seed \d+: [^]*\nSchedule:\n[^]* {2}\d+\. at [\d.]+ ms /);
  });

  it('that breaks several laws says all', async () => {
    const make = faulty(() => ({ correct: () => undefined, hold: () => undefined }));
    const error: unknown = await creditStoreLaws(make, { only: [BOOKS, HOLD], schedules: 1 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AggregateError);
    expect((error as AggregateError).errors.map(({ law }: { law: string }) => law)).toEqual([BOOKS, HOLD]);
  });

  it('that forgets all at a restart breaks a law', async () => {
    const make = (): StoreUnderTest => {
      const { scheduler, ...rest } = inMemory();
      return { ...rest, restart: () => memoryStore({ scheduler }) };
    };
    await expect(creditStoreLaws(make, { only: ['continues after a restart'] })).rejects.toThrow(
      'what was granted before a restart is forgotten',
    );
  });

  it('gets a schedule that is as short as possible', async () => {
    const error: unknown = await creditStoreLaws(
      asking(() => ({ guardMs: 0 })),
      { only: [WINDOW] },
    ).catch((reason: unknown) => reason);
    expect((error as Error).message.split('\n').filter((line) => /^ {2}\d/.test(line)).length).toBeLessThanOrEqual(8);
  });

  it('that never answers, fails or answers nonsense breaks a law', async () => {
    const answers: readonly (readonly [unknown, string])[] = [
      [new Observable(), 'a question has no answer after 5000 ms'],
      [Promise.reject(new Error('no connection')), 'a question failed: Error: no connection'],
      [of('yes'), 'the answer is no credit and no wait: "yes"'],
      [{ waitMs: 0, left: [0] }, 'a wait of 0 ms'],
    ];
    for (const [answer, says] of answers) {
      const make = faulty(() => ({ ask: () => answer as never }));
      await expect(creditStoreLaws(make, { only: [LEAST], schedules: 1 })).rejects.toThrow(says);
    }
  });
});

describe('creditStoreLaws', () => {
  it.each<[object, string]>([
    [{ only: ['is fast'] }, 'expected `only` to be titles of laws, at least one'],
    [{ only: [] }, 'expected `only` to be titles of laws, at least one'],
    [{ schedules: 0 }, 'expected `schedules` to be a whole number >= 1'],
    [{ windowMs: 5 }, 'expected `windowMs` to be a number of ms from 100 to 60000'],
    [{ seed: 0.5 }, 'expected `seed` to be a whole number'],
    [{ schedule: 3 }, 'unknown option `schedule`. Did you mean `schedules`?'],
  ])('refuses %j, which would test nothing, or something else', async (options, message) => {
    await expect(creditStoreLaws(() => inMemory(), options)).rejects.toThrow(message);
  });

  it('leaves no timer of an answer that came in real time', async () => {
    const store = memoryStore();
    const later = <A>(answer: A): Promise<A> =>
      new Promise((resolve) =>
        setTimeout(() => {
          resolve(answer);
        }, 1),
      );
    const make = () => ({
      store: {
        ask: (question: CreditQuestion) => later(store.ask(question)),
        correct: (corrections: CreditCorrections) => {
          store.correct(corrections);
        },
        hold: (scope: string, ms: number) => {
          store.hold(scope, ms);
        },
      },
    });
    const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length;
    const before = timers();
    await creditStoreLaws(make, { only: [LEAST], schedules: 1, windowMs: 100 });
    expect(timers()).toBeLessThanOrEqual(before + 1);
  });

  it('closes each store', async () => {
    let [made, closed] = [0, 0];
    const make = (): StoreUnderTest => {
      made++;
      return { ...inMemory(), close: () => void closed++ };
    };
    await creditStoreLaws(make, { only: [HOLD], schedules: 3 });
    expect([made, closed]).toEqual([3, 3]);
  });

  it('draws other schedules with another seed', async () => {
    const texts = await Promise.all(
      [1, 1, 100].map((seed) =>
        creditStoreLaws(
          asking(() => ({ guardMs: 0 })),
          { only: [WINDOW], seed },
        ).catch((reason: unknown) => String(reason)),
      ),
    );
    expect(texts[0]).toBe(texts[1]);
    expect(texts[0]).not.toBe(texts[2]);
  });
});
