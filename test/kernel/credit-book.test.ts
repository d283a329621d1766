import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CreditBook } from '../../operators/kernel/index.js';
import type { Credit, CreditCorrection } from '../../operators/options/credit-store.js';
import { draws } from '../support/deep.js';
import { CreditBookModel } from './credit-book-model.js';

const NEWS = { left: [], holdMs: 0, epoch: 0, lessons: {} } as const;
const creditOf = (credit: number, ...amounts: readonly number[]): Credit => ({ ...NEWS, credit, amounts });

/** A book with these credits of one unit; each is good for 100 ms. */
function bookOf(...credits: readonly { readonly credit: number; readonly amount: number; readonly lane?: number; readonly at?: number }[]) {
  const book = new CreditBook();
  for (const { credit, amount, lane = 0, at = 0 } of credits) book.add(creditOf(credit, amount), lane, at, at + 100);
  return book;
}

/** What the book tells the store, as credit, lane and amounts. */
const told = (book: CreditBook): unknown[] => book.takeCorrections().map(({ credit, lane, amounts }) => [credit, lane, ...amounts]);

describe('what a lane may spend', () => {
  it('is nothing without credit, which covers nothing, not even what costs nothing', () => {
    const book = new CreditBook();
    expect([book.left(0, 0), book.covers(0, 0, 0), book.covers(0, 1, 0), book.endsAt(false), book.hasCorrections, told(book)]).toEqual([
      0,
      false,
      false,
      Infinity,
      false,
      [],
    ]);
  });

  it('is all credit, until it ends', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3, at: 50 });
    expect([book.left(0, 50), book.left(0, 99), book.left(0, 100), book.left(0, 149), book.left(0, 150)]).toEqual([8, 8, 3, 3, 0]);
    expect([book.covers(0, 8, 99), book.covers(0, 9, 99), book.covers(0, 3, 100), book.covers(0, 4, 100)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect([book.covers(0, 0, 149), book.covers(0, 0, 150)]).toEqual([true, false]);
  });

  it('is that of its own lane and of those below it', () => {
    const book = bookOf({ credit: 1, amount: 5, lane: 2 }, { credit: 2, amount: 3, lane: 1 }, { credit: 3, amount: 1, lane: 0 });
    expect([0, 1, 2, 3].map((lane) => book.left(0, 0, lane))).toEqual([9, 8, 5, 0]);
    expect(book.left(0, 0)).toBe(9);
    expect([0, 1, 2, 3].map((lane) => book.covers(0, 6, 0, lane))).toEqual([true, true, false, false]);
    expect([book.covers(0, 9, 0), book.covers(0, 10, 0)]).toEqual([true, false]);
  });

  it('is counted for each unit', () => {
    const book = new CreditBook();
    book.add(creditOf(1, 5, 7), 0, 0, 100);
    book.add(creditOf(2, 1, 0), 0, 0, 100);
    expect([book.left(0, 0), book.left(1, 0), book.covers(0, 6, 0), book.covers(1, 7, 0), book.covers(1, 8, 0)]).toEqual([
      6,
      7,
      true,
      true,
      false,
    ]);
    book.pay(1, 4, 0);
    expect([book.left(0, 0), book.left(1, 0)]).toEqual([6, 3]);
  });

  it('is enough when a millionth is missing: sums of fractions round', () => {
    const book = bookOf({ credit: 1, amount: 1 });
    expect([book.covers(0, 1 + 1e-6, 0), book.covers(0, 1 + 2e-6, 0)]).toEqual([true, false]);
    expect(bookOf({ credit: 1, amount: 0 }).covers(0, 1e-6, 0)).toBe(true);
  });

  it('covers what costs nothing although all of it is spent', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 5, 0);
    expect([book.left(0, 0), book.covers(0, 0, 0), book.covers(0, 1, 0)]).toEqual([0, true, false]);
  });

  it('is not changed with the answer of the store', () => {
    const amounts = [5];
    const book = new CreditBook();
    book.add({ ...NEWS, credit: 1, amounts }, 0, 0, 100);
    book.pay(0, 2, 0);
    expect([amounts, book.left(0, 0)]).toEqual([[5], 3]);
  });
});

describe('paying', () => {
  it('takes the oldest credit first, and leaves what it does not need', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3 });
    book.pay(0, 6, 10);
    expect([book.left(0, 10), told(book)]).toEqual([2, []]);
    book.expire(100);
    expect(told(book)).toEqual([[2, 0, -2]]);
  });

  it('takes credit of the lane that pays or of less urgent ones, and no other', () => {
    const book = bookOf({ credit: 1, amount: 5, lane: 0 }, { credit: 2, amount: 3, lane: 1 });
    book.pay(0, 2, 10, 1);
    expect([book.left(0, 10), book.left(0, 10, 1)]).toEqual([6, 1]);
    book.pay(0, 6, 10);
    expect([book.left(0, 10), told(book)]).toEqual([0, []]);
  });

  it('does not take credit that has ended', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5, at: 50 });
    book.pay(0, 2, 100);
    book.expire(150);
    expect(told(book)).toEqual([
      [1, 0, -5],
      [2, 0, -3],
    ]);
  });

  it('charges what no credit covers to the latest one', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3 }, { credit: 3, amount: 1, lane: 1 });
    book.pay(0, 10, 10, 0);
    expect([book.left(0, 10), told(book)]).toEqual([0, [[3, 1, 1]]]);
    book.pay(0, 2, 10, 1);
    expect(told(book)).toEqual([[3, 1, 2]]);
    const upper = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3, lane: 1 });
    upper.pay(0, 4, 10, 1);
    expect([upper.left(0, 10), told(upper)]).toEqual([5, [[2, 1, 1]]]);
  });

  it('charges what was paid without credit to the next one, once', () => {
    const book = new CreditBook();
    book.pay(0, 4, 0);
    book.pay(0, 1, 0);
    book.pay(1, 2, 0);
    expect(book.hasCorrections).toBe(false);
    book.add(creditOf(1, 10, 10), 1, 0, 100);
    expect([book.left(0, 0), book.hasCorrections, told(book)]).toEqual([10, true, [[1, 1, 5, 2]]]);
    book.add(creditOf(2, 10, 10), 0, 0, 100);
    expect([book.hasCorrections, told(book)]).toEqual([false, []]);
  });

  it('of a millionth too much charges nothing', () => {
    const book = bookOf({ credit: 1, amount: 1 });
    book.pay(0, 1 + 1e-6, 0);
    expect(told(book)).toEqual([]);
    book.pay(0, 2e-6, 0);
    expect(told(book)).toEqual([[1, 0, 2e-6]]);
    const least = bookOf({ credit: 1, amount: 1e-6 });
    least.pay(0, 2e-6, 0);
    expect(told(least)).toEqual([]);
  });
});

describe('credit that ends', () => {
  it('goes back with what is left of it, and not before its end', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3, at: 50 });
    book.pay(0, 1, 0);
    expect(book.endsAt(false)).toBe(100);
    book.expire(99);
    expect([book.hasCorrections, book.left(0, 99)]).toEqual([false, 7]);
    book.expire(100);
    expect([book.endsAt(false), told(book), book.left(0, 99)]).toEqual([150, [[1, 0, -4]], 3]);
    book.expire(100);
    expect(told(book)).toEqual([]);
    book.expire(150);
    expect([book.endsAt(false), told(book)]).toEqual([Infinity, [[2, 0, -3]]]);
  });

  it('is told of only when something is left', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 1e-6 }, { credit: 3, amount: 2e-6 });
    book.pay(0, 5, 0);
    book.expire(100);
    expect([book.hasCorrections, told(book)]).toEqual([true, [[3, 0, -2e-6]]]);
  });

  it('is next where something is left of any unit', () => {
    const book = new CreditBook();
    book.add(creditOf(1, 5, 1), 0, 0, 100);
    book.add(creditOf(2, 0, 1e-6), 0, 0, 120);
    book.add(creditOf(3, 0, 2e-6), 0, 0, 140);
    expect(book.endsAt(false)).toBe(100);
    book.pay(0, 5, 0);
    expect(book.endsAt(false)).toBe(100);
    book.pay(1, 1, 0);
    expect(book.endsAt(false)).toBe(140);
  });

  it('is next although nothing is left of it, while something waits', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3, at: 50 });
    book.pay(0, 8, 60);
    expect([book.endsAt(false), book.endsAt(true)]).toEqual([Infinity, 100]);
    book.expire(100);
    expect([book.endsAt(false), book.endsAt(true)]).toEqual([Infinity, 150]);
    book.expire(150);
    expect(book.endsAt(true)).toBe(Infinity);
  });

  it('goes back all at once when the limiter ends', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 3, lane: 1 });
    book.pay(0, 2, 0);
    book.drop();
    expect([told(book), book.left(0, 0), book.covers(0, 0, 0), book.endsAt(false)]).toEqual([
      [
        [1, 0, -3],
        [2, 1, -3],
      ],
      0,
      false,
      Infinity,
    ]);
    book.drop();
    expect(told(book)).toEqual([]);
  });

  it('is told of once, together with what else is new of it', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 3, 0);
    book.correct(0, 1, 0, 0);
    book.expire(100);
    expect(told(book)).toEqual([[1, 0, 1 - 2]]);
    expect([book.hasCorrections, told(book)]).toEqual([false, []]);
  });

  it('of one number and different lanes is told apart', () => {
    const book = bookOf({ credit: 1, amount: 5, lane: 0 }, { credit: 1, amount: 3, lane: 1 });
    book.drop();
    expect(told(book)).toEqual([
      [1, 0, -5],
      [1, 1, -3],
    ]);
  });
});

describe('a correction', () => {
  it('of less can be spent again while the credit lasts', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 4, 10);
    book.correct(0, -3, 10, 20);
    expect([book.left(0, 20), told(book)]).toEqual([4, []]);
    book.expire(100);
    expect(told(book)).toEqual([[1, 0, -4]]);
  });

  it('of less goes back to the store when the credit has ended or was given back', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5 });
    book.pay(0, 6, 10);
    book.correct(0, -2, 10, 100);
    expect([book.left(0, 99), told(book)]).toEqual([4, [[1, 0, -2]]]);
    book.drop();
    expect(told(book)).toEqual([[2, 0, -4]]);
    book.correct(0, -4, 10, 20);
    expect(told(book)).toEqual([
      [1, 0, -3],
      [2, 0, -1],
    ]);
  });

  it('of less is given back to the oldest credit that was paid with at that time, no more than was spent', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5 }, { credit: 3, amount: 5 });
    book.pay(0, 7, 10);
    book.pay(0, 4, 20);
    // At 10, credit 1 and 2 were paid with; at 20, credit 2 and 3.
    book.correct(0, -6, 10, 100);
    expect(told(book)).toEqual([
      [1, 0, -5],
      [2, 0, -1],
    ]);
    book.correct(0, -100, 20, 100);
    expect(told(book)).toEqual([
      [2, 0, -4],
      [3, 0, -1],
    ]);
    book.correct(0, -100, 10, 100);
    expect(told(book)).toEqual([]);
  });

  it('of less of what was paid without credit leaves less for the next one to be charged with', () => {
    const book = new CreditBook();
    book.pay(0, 5, 0);
    book.correct(0, -2, 0, 10);
    book.add(creditOf(1, 10), 0, 20, 120);
    expect(told(book)).toEqual([[1, 0, 3]]);
    const other = new CreditBook();
    other.correct(0, -2, 0, 10);
    other.pay(0, 5, 10);
    other.correct(0, -7, 10, 10);
    other.add(creditOf(1, 10), 0, 20, 120);
    expect([other.left(0, 20), told(other)]).toEqual([10, []]);
  });

  it('of more is charged to the latest credit that was paid with at that time', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5 }, { credit: 3, amount: 5 });
    book.pay(0, 7, 10);
    book.correct(0, 4, 10, 20);
    expect([book.left(0, 20), told(book)]).toEqual([8, [[2, 0, 4]]]);
    book.correct(0, 1, 10, 1000);
    expect(told(book)).toEqual([[2, 0, 1]]);
    // That can be given back as well.
    book.correct(0, -12, 10, 1000);
    expect(told(book)).toEqual([
      [1, 0, -5],
      [2, 0, -7],
    ]);
  });

  it('of more than was paid with any credit is charged to the latest that lasts, or to the next', () => {
    const book = bookOf({ credit: 1, amount: 5, lane: 1 }, { credit: 2, amount: 5 });
    book.correct(0, 4, 10, 20);
    expect(told(book)).toEqual([[2, 0, 4]]);
    book.correct(0, 3, 10, 100);
    expect(told(book)).toEqual([]);
    book.add(creditOf(3, 5), 0, 110, 210);
    expect(told(book)).toEqual([[3, 0, 3]]);
  });

  it('of 0 changes nothing', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 2, 10);
    book.correct(0, 0, 10, 20);
    expect([book.left(0, 20), book.hasCorrections, told(book)]).toEqual([3, false, []]);
  });

  it('finds what was paid although it cost nothing', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5 });
    book.pay(0, 0, 10);
    book.correct(0, 3, 10, 20);
    expect(told(book)).toEqual([[1, 0, 3]]);
    // Nothing was paid at another time: the latest that lasts.
    book.correct(0, 3, 11, 20);
    expect(told(book)).toEqual([[2, 0, 3]]);
    book.correct(0, 3, 9, 20);
    expect(told(book)).toEqual([[2, 0, 3]]);
  });

  it('finds what was paid beyond all credit', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5 });
    book.pay(0, 10, 10);
    book.pay(0, 3, 30);
    expect(told(book)).toEqual([[2, 0, 3]]);
    book.correct(0, -4, 30, 40);
    expect([book.left(0, 40), told(book)]).toEqual([4, []]);
  });

  it('skips credit of which nothing is left, so that what it has paid is not mixed up', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5 });
    book.pay(0, 5, 10);
    book.pay(0, 2, 20);
    // Only the second was paid with at 20.
    book.correct(0, -2, 20, 100);
    expect(told(book)).toEqual([[2, 0, -2]]);
  });

  it('knows of all times between the first and the last payment with a credit', () => {
    const book = bookOf({ credit: 1, amount: 9 }, { credit: 2, amount: 9 });
    for (const at of [20, 40]) book.pay(0, 2, at);
    for (const [at, credit] of [
      [19, 2],
      [20, 1],
      [30, 1],
      [40, 1],
      [41, 2],
    ] as const) {
      book.correct(0, 1, at, 50);
      expect(told(book)).toEqual([[credit, 0, 1]]);
    }
  });

  it('of less goes on to later credit: another job was paid with what came back of this one', () => {
    const book = bookOf({ credit: 1, amount: 2 }, { credit: 2, amount: 5, at: 5 });
    book.pay(0, 2, 10);
    book.pay(0, 3, 20);
    book.correct(0, -4, 10, 200);
    expect(told(book)).toEqual([
      [1, 0, -2],
      [2, 0, -2],
    ]);
    book.correct(0, -4, 10, 200);
    expect(told(book)).toEqual([[2, 0, -1]]);
  });

  it('of less goes to no credit that had ended before the job was paid', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5, at: 50 });
    book.pay(0, 5, 10);
    book.pay(0, 2, 110);
    book.correct(0, -4, 100, 200);
    expect(told(book)).toEqual([[2, 0, -2]]);
    book.correct(0, -4, 99, 200);
    expect(told(book)).toEqual([[1, 0, -4]]);
  });

  it('of a millionth less does not go on to later credit', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 5, at: 5 });
    book.pay(0, 0, 2);
    book.pay(0, 6, 10);
    book.correct(0, -5, 10, 200);
    expect(told(book)).toEqual([[1, 0, -5]]);
    book.correct(0, -1e-6, 2, 200);
    expect(told(book)).toEqual([]);
    book.correct(0, -2e-6, 2, 200);
    expect(told(book)).toEqual([[2, 0, -2e-6]]);
  });

  it('of less comes back from what was charged to the next credit', () => {
    const book = new CreditBook();
    book.pay(0, 5, 10);
    book.add(creditOf(1, 9), 0, 20, 120);
    expect(told(book)).toEqual([[1, 0, 5]]);
    book.correct(0, -3, 10, 30);
    expect([book.left(0, 30), told(book)]).toEqual([12, []]);
    book.correct(0, -3, 10, 120);
    expect(told(book)).toEqual([[1, 0, -2]]);
  });

  it('of less comes off what is owed before it goes on to later credit', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 2, 50);
    book.pay(0, 4, 150);
    book.correct(0, -5, 40, 160);
    expect(told(book)).toEqual([[1, 0, -1]]);
    book.add(creditOf(2, 5), 0, 170, 270);
    expect(told(book)).toEqual([]);
  });
});

describe('jobs of several lanes', () => {
  it('get back what their own lane has paid, of each unit', () => {
    const book = new CreditBook();
    book.add(creditOf(1, 9, 9), 1, 0, 100);
    book.pay(0, 2, 10, 0);
    book.pay(0, 3, 10, 1);
    book.pay(1, 4, 10, 1);
    book.correct(0, -9, 10, 200, 0);
    expect(told(book)).toEqual([[1, 1, -2, 0]]);
    book.correct(1, -9, 10, 200, 0);
    expect(told(book)).toEqual([]);
    book.correct(0, -9, 10, 200, 1);
    book.correct(1, -9, 10, 200, 1);
    expect(told(book)).toEqual([[1, 1, -3, -4]]);
    book.correct(0, -9, 10, 200, 2);
    expect(told(book)).toEqual([]);
  });

  it('get back what their lane has paid with another credit, when another lane has paid with the first', () => {
    const book = bookOf({ credit: 1, amount: 2, lane: 1 }, { credit: 2, amount: 5, lane: 1 });
    book.pay(0, 2, 10, 0);
    book.pay(0, 3, 10, 1);
    book.correct(0, -4, 10, 200, 1);
    expect(told(book)).toEqual([[2, 1, -3]]);
  });

  it('owe apart what they have paid without credit, and the next one is charged with all of it', () => {
    const owing = (): CreditBook => {
      const book = new CreditBook();
      book.pay(0, 4, 0, 0);
      book.pay(0, 3, 0, 2);
      return book;
    };
    const book = owing();
    book.correct(0, -9, 0, 10, 2);
    book.correct(0, -9, 0, 10, 1);
    book.add(creditOf(1, 9), 0, 20, 120);
    expect(told(book)).toEqual([[1, 0, 4]]);
    const charged = owing();
    charged.add(creditOf(1, 9), 0, 20, 120);
    expect(told(charged)).toEqual([[1, 0, 7]]);
    charged.correct(0, -9, 0, 200, 1);
    expect(told(charged)).toEqual([]);
    charged.correct(0, -9, 0, 200, 2);
    expect(told(charged)).toEqual([[1, 0, -3]]);
    charged.correct(0, -9, 0, 200, 0);
    expect(told(charged)).toEqual([[1, 0, -4]]);
  });

  it('are charged with more on credit of their lane: that of a more urgent one is under fewer limits', () => {
    const book = bookOf({ credit: 1, amount: 5, lane: 1 }, { credit: 2, amount: 5, lane: 0 });
    book.pay(0, 1, 10, 1);
    // Of 5, one is of the second credit.
    book.pay(0, 5, 10, 0);
    book.correct(0, 4, 10, 20, 1);
    expect(told(book)).toEqual([[1, 1, 4]]);
    book.correct(0, 4, 10, 20, 0);
    expect(told(book)).toEqual([[2, 0, 4]]);
    book.correct(0, -9, 10, 200, 1);
    expect(told(book)).toEqual([[1, 1, -5]]);
  });

  it('owe what they are charged with more, when no credit lasts', () => {
    const book = new CreditBook();
    book.correct(0, 4, 0, 10, 2);
    book.correct(0, -1, 0, 10, 2);
    book.correct(0, -1, 0, 10, 0);
    book.add(creditOf(1, 9), 0, 20, 120);
    expect(told(book)).toEqual([[1, 0, 3]]);
  });
});

describe('frozen credit', () => {
  it('is spent to its end, and nothing of it comes back', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 3, 10);
    book.freeze();
    expect([book.left(0, 10), book.covers(0, 2, 10)]).toEqual([2, true]);
    book.correct(0, -2, 10, 20);
    expect([book.left(0, 20), book.hasCorrections]).toEqual([4, false]);
    book.expire(100);
    book.correct(0, -1, 10, 110);
    expect([book.left(0, 110), book.hasCorrections, told(book)]).toEqual([0, false, []]);
  });

  it('is charged with what a job costs more', () => {
    const book = bookOf({ credit: 1, amount: 5 });
    book.pay(0, 3, 10);
    book.freeze();
    book.correct(0, 2, 10, 20);
    book.pay(0, 4, 20);
    book.correct(0, -1, 10, 110);
    expect(told(book)).toEqual([[1, 0, 4]]);
  });

  it('is what was granted until then', () => {
    const book = bookOf({ credit: 1, amount: 5 }, { credit: 2, amount: 4 });
    book.freeze();
    book.add(creditOf(3, 3), 0, 50, 150);
    book.drop();
    expect(told(book)).toEqual([[3, 0, -3]]);
  });

  it('takes back what was not told yet of less, and not of more', () => {
    const book = new CreditBook();
    book.add(creditOf(1, 5, 5), 0, 0, 100);
    book.add(creditOf(2, 5, 5), 0, 0, 110);
    book.pay(1, 11, 10);
    book.expire(100);
    book.pay(0, 7, 105);
    book.freeze();
    expect(told(book)).toEqual([
      [2, 0, 2, 1],
      [1, 0, 0, 0],
    ]);
  });
});

describe('a unit that jobs hold until their end', () => {
  /** Tokens, and two slots of five that a job holds. */
  function holding(): CreditBook {
    const book = new CreditBook(1);
    book.add(creditOf(1, 9, 5), 0, 0, 100);
    book.pay(0, 4, 10);
    book.pay(1, 2, 10);
    return book;
  }

  it('is not renewed where none is held, or there is no such unit', () => {
    const none = new CreditBook(1);
    none.add(creditOf(1, 9, 5), 0, 0, 100);
    none.pay(0, 4, 10);
    expect([none.renew(60), told(none)]).toEqual([false, []]);
    const without = new CreditBook();
    without.add(creditOf(1, 9, 5), 0, 0, 100);
    for (const column of [0, 1]) without.pay(column, 4, 10);
    expect([without.renew(60), told(without)]).toEqual([false, []]);
  });

  it('goes back at once where no job takes what is left of it, and other units stay', () => {
    const book = new CreditBook(1);
    book.add(creditOf(1, 10, 3), 1, 0, 100);
    book.pay(1, 1, 5, 1);
    book.giveBackHeld();
    expect(told(book)).toEqual([[1, 1, 0, -2]]);
    expect([book.left(0, 6, 1), book.left(1, 6, 1)]).toEqual([10, 0]);
    book.giveBackHeld();
    expect(told(book)).toEqual([]);
  });

  it('is all given back when no job runs, of whatever lane, and once', () => {
    const book = new CreditBook(1);
    book.add(creditOf(1, 10, 5), 2, 0, 100);
    book.pay(1, 1, 5, 0);
    book.pay(1, 2, 5, 2);
    book.pay(0, 4, 5, 2);
    book.expire(100);
    told(book);
    book.renew(160);
    told(book);
    book.forgetHeld();
    expect(told(book)).toEqual([[160, 2, 0, -3]]);
    expect([book.renew(260), told(book)]).toEqual([false, []]);
    book.forgetHeld();
    expect(told(book)).toEqual([]);
  });

  it('counts as granted when it was renewed last', () => {
    const book = holding();
    book.expire(100);
    expect(told(book)).toEqual([[1, 0, -5, -3]]);
    expect([book.renew(160), told(book)]).toEqual([
      true,
      [
        [1, 0, 0, -2],
        [160, 0, 0, 2],
      ],
    ]);
    expect([book.renew(260), told(book)]).toEqual([
      true,
      [
        [160, 0, 0, -2],
        [260, 0, 0, 2],
      ],
    ]);
  });

  it('comes back to where it counts, other units to when they were granted', () => {
    const book = holding();
    book.expire(100);
    book.renew(160);
    told(book);
    book.correct(1, -1, 10, 200);
    book.correct(0, -3, 10, 200);
    expect(told(book)).toEqual([
      [160, 0, 0, -1],
      [1, 0, -3, 0],
    ]);
    book.renew(260);
    expect(told(book)).toEqual([
      [160, 0, 0, -1],
      [260, 0, 0, 1],
    ]);
    book.correct(1, -1, 10, 300);
    expect(told(book)).toEqual([[260, 0, 0, -1]]);
    expect([book.renew(360), told(book)]).toEqual([false, []]);
  });

  it('is renewed with what is left of its credit, which goes back to where it counts', () => {
    const book = holding();
    expect([book.renew(60), told(book)]).toEqual([
      true,
      [
        [1, 0, 0, -5],
        [60, 0, 0, 5],
      ],
    ]);
    book.expire(100);
    expect(told(book)).toEqual([
      [1, 0, -5, 0],
      [60, 0, 0, -3],
    ]);
    book.renew(160);
    expect(told(book)).toEqual([
      [60, 0, 0, -2],
      [160, 0, 0, 2],
    ]);
  });

  it('is renewed of all lanes together, and of each credit', () => {
    const book = new CreditBook(0);
    book.add(creditOf(1, 3), 2, 0, 100);
    book.add(creditOf(2, 3), 1, 0, 100);
    book.add(creditOf(3, 3), 1, 0, 100);
    book.pay(0, 1, 10, 0);
    book.pay(0, 2, 10, 2);
    book.pay(0, 2, 10, 1);
    book.expire(100);
    told(book);
    expect([book.renew(160), told(book)]).toEqual([
      true,
      [
        [1, 2, -3],
        [160, 2, 3],
        [2, 1, -2],
        [160, 1, 2],
      ],
    ]);
  });

  it('is held when it is more than a millionth', () => {
    const renewed = (amount: number): boolean => {
      const book = new CreditBook(0);
      book.add(creditOf(1, 1), 0, 0, 100);
      book.pay(0, amount, 10);
      return book.renew(60);
    };
    expect([renewed(1e-6), renewed(2e-6)]).toEqual([false, true]);
  });

  it('comes back of frozen credit as well, and so does what was not told yet', () => {
    const book = holding();
    book.expire(100);
    book.freeze();
    expect(told(book)).toEqual([[1, 0, 0, -3]]);
    book.renew(160);
    book.correct(1, -1, 10, 200);
    book.correct(0, -1, 10, 200);
    expect(told(book)).toEqual([
      [1, 0, 0, -2],
      [160, 0, 0, 1],
    ]);
  });
});

describe('the memory of a book', () => {
  const TEN_MINUTES = 600_000;

  /** Eight credits of 5, one every 100 ms, each paid with at once. */
  function spent(): CreditBook {
    const book = new CreditBook();
    for (let i = 0; i < 8; i++) {
      book.add(creditOf(i, 5), 0, 100 * i, 100 * i + 100);
      book.pay(0, 5, 100 * i);
      book.expire(100 * i);
    }
    book.expire(800);
    return book;
  }
  /** Which of the eight a correction still finds. */
  const found = (book: CreditBook, now: number): unknown[] => {
    for (let i = 0; i < 8; i++) book.correct(0, 1, 100 * i, now);
    return told(book).map((each) => (each as number[])[0]);
  };

  it('keeps what has ended for ten minutes, for corrections', () => {
    expect(found(spent(), 900)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const book = spent();
    // The fourth has ended at 400.
    book.expire(400 + TEN_MINUTES - 1);
    expect(found(book, 1e6)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('forgets the older half when all of that has ended long ago', () => {
    const book = spent();
    book.expire(400 + TEN_MINUTES);
    expect(found(book, 1e6)).toEqual([4, 5, 6, 7]);
    book.expire(600 + TEN_MINUTES);
    expect(found(book, 1e6)).toEqual([6, 7]);
    book.expire(700 + TEN_MINUTES);
    expect(found(book, 1e6)).toEqual([7]);
    book.expire(1e9);
    expect(found(book, 1e9)).toEqual([7]);
  });

  it('never forgets credit that lasts', () => {
    const book = spent();
    book.add(creditOf(8, 5), 0, 800, 2 * TEN_MINUTES);
    book.add(creditOf(9, 5), 0, 800, 2 * TEN_MINUTES);
    book.expire(400 + TEN_MINUTES);
    expect([book.left(0, TEN_MINUTES), book.endsAt(false)]).toEqual([10, 2 * TEN_MINUTES]);
    book.expire(2 * TEN_MINUTES);
    expect(told(book)).toEqual([
      [8, 0, -5],
      [9, 0, -5],
    ]);
  });

  it('never forgets credit of which jobs still hold slots', () => {
    const book = new CreditBook(0);
    for (let i = 0; i < 8; i++) {
      book.add(creditOf(i, 1), 0, 100 * i, 100 * i + 100);
      book.pay(0, 1, 100 * i);
    }
    book.expire(800);
    const free = (i: number): unknown[] => {
      book.correct(0, -1, 100 * i, 2 * TEN_MINUTES);
      return told(book);
    };
    for (const i of [0, 2, 4, 5, 7]) expect(free(i)).toEqual([[i, 0, -1]]);
    book.add(creditOf(8, 3), 0, 2 * TEN_MINUTES, 2 * TEN_MINUTES + 100);
    book.expire(2 * TEN_MINUTES);
    // Of the younger half all is still there, in its order.
    book.correct(0, 1, 400, 2 * TEN_MINUTES);
    expect(told(book)).toEqual([[4, 0, 1]]);
    expect(free(4)).toEqual([[4, 0, -1]]);
    book.expire(2 * TEN_MINUTES);
    // What lasts is still the first that ends.
    expect([book.left(0, 2 * TEN_MINUTES), book.endsAt(true), told(book)]).toEqual([3, 2 * TEN_MINUTES + 100, []]);
    expect(book.renew(1e7)).toBe(true);
    expect(told(book).map((each) => (each as number[]).slice(0, 3))).toEqual([
      [1, 0, -1],
      [1e7, 0, 3],
      [3, 0, -1],
      [6, 0, -1],
    ]);
    for (const i of [1, 3, 6]) expect(free(i)).toEqual([[1e7, 0, -1]]);
    book.expire(2 * TEN_MINUTES + 100);
    expect(told(book)).toEqual([[8, 0, -3]]);
  });

  it('forgets credit when no job holds a slot of it any more', () => {
    const book = new CreditBook(1);
    for (let i = 0; i < 4; i++) {
      book.add(creditOf(i, 5, 1), 0, 100 * i, 100 * i + 100);
      book.pay(0, 5, 100 * i);
      book.pay(1, i === 1 ? 1 : 1e-6, 100 * i);
      book.expire(100 * i + 100);
    }
    told(book);
    const foundFirst = (): boolean => {
      book.correct(0, 1, 100, 1e6);
      return told(book).length > 0;
    };
    book.expire(TEN_MINUTES + 200);
    expect(foundFirst()).toBe(true);
    // The first is forgotten.
    book.correct(0, 1, 0, 1e6);
    expect(told(book)).toEqual([]);
    book.correct(1, -1, 100, 1e6);
    expect(told(book)).toEqual([[1, 0, 0, -1]]);
    book.expire(2 * TEN_MINUTES);
    expect(foundFirst()).toBe(false);
  });
});

/** What a store has booked for each credit: no more may go back than was granted or charged. */
class BookedAmounts {
  private readonly amounts = new Map<string, number[]>();

  readonly book = ({ credit, lane, amounts }: CreditCorrection): void => {
    const key = `${String(credit)} ${String(lane)}`;
    const before = this.amounts.get(key) ?? [0, 0];
    this.amounts.set(
      key,
      before.map((amount, column) => amount + amounts[column]!),
    );
  };

  get least(): number {
    return Math.min(0, ...[...this.amounts.values()].flat());
  }

  sum(column: number): number {
    return [...this.amounts.values()].reduce((sum, amounts) => sum + amounts[column]!, 0);
  }
}

const step = fc.record({
  do: fc.constantFrom(
    ...(['add', 'add', 'pay', 'pay', 'pay', 'correct', 'correct', 'correct', 'wait', 'wait'] as const),
    ...(['expire', 'take', 'drop', 'renew', 'freeze'] as const),
  ),
  column: fc.nat({ max: 1 }),
  lane: fc.nat({ max: 2 }),
  size: fc.nat({ max: 20 }),
  other: fc.nat({ max: 20 }),
});

describe('a book', () => {
  it('says what a list of all credit says, whatever is paid, corrected, renewed and given back', () => {
    fc.assert(
      fc.property(fc.constantFrom(-1, 0, 1), fc.array(step, { minLength: 1, maxLength: 80, size: 'max' }), (heldColumn, steps) => {
        const book = new CreditBook(heldColumn);
        const model = new CreditBookModel(heldColumn);
        const store = new BookedAmounts();
        let now = 0;
        let endsAt = 0;
        for (const { do: what, column, lane, size, other } of steps) {
          if (what === 'add') {
            endsAt = Math.max(endsAt, now + 10 + other);
            book.add(creditOf(now, size, other), lane, now, endsAt);
            model.add(now, [size, other], lane, now, endsAt);
            store.book({ credit: now, lane, amounts: [size, other] });
          }
          if (what === 'pay') {
            book.pay(column, size, now, lane);
            model.pay(column, size, lane, now);
          }
          if (what === 'correct') {
            const at = now - other;
            book.correct(column, 10 - size, at, now, lane);
            model.correct(column, 10 - size, at, now, lane);
          }
          if (what === 'wait') now += size;
          if (what === 'expire') {
            book.expire(now);
            model.end((each) => each.endsAt <= now);
          }
          if (what === 'drop' && size < 3) {
            book.drop();
            model.end(() => true);
          }
          // As the clock of a store that is half a millisecond ahead: no credit has its time.
          if (what === 'renew') expect(book.renew(now + 0.5)).toBe(model.renew(now + 0.5));
          if (what === 'freeze' && size < 3) {
            book.freeze();
            model.freeze();
          }
          if (what === 'take') {
            const told = book.takeCorrections();
            expect(told).toEqual(model.told.splice(0));
            told.forEach(store.book);
          }
          const said: unknown[] = [book.endsAt(false), book.endsAt(true), book.hasCorrections];
          const listed: unknown[] = [model.endsAt(false), model.endsAt(true), model.told.length > 0];
          for (const each of [0, 1]) {
            for (const of of [0, 1, 2, 3]) {
              const open = model.open(of, now);
              const left = open.reduce((sum, entry) => sum + entry.left[each]!, 0);
              said.push(book.left(each, now, of), book.covers(each, size, now, of));
              listed.push(left, open.length > 0 && left >= size);
            }
          }
          // Mostly equal: a comparison of its own costs much more.
          if (said.join() !== listed.join()) expect(said).toEqual(listed);
        }
        const told = book.takeCorrections();
        expect(told).toEqual(model.told);
        told.forEach(store.book);
        expect(store.least).toBe(0);
        if (heldColumn >= 0) {
          const held = model.all.reduce((sum, each) => sum + model.amountOf(each, heldColumn), 0);
          expect(store.sum(heldColumn)).toBe(held);
        }
      }),
      { numRuns: draws(120, 500) },
    );
  });
});
