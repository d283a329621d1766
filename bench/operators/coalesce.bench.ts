import { bufferTime, from, map, Observable } from 'rxjs';
import { coalesce } from '../../operators/coalesce.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

interface Delta {
  readonly id: number;
  readonly text: string;
}

const MERGED_AT_MOST = 100;

const join = (first: Delta, next: Delta): Delta => ({ id: first.id, text: first.text + next.text });

/** The least there is: one that waits, merged with its neighbours of the same message. */
function byHand(deltas: readonly Delta[], out: (merged: Delta) => void): void {
  let pending: Delta | undefined;
  let size = 0;
  for (const delta of deltas) {
    if (pending !== undefined && pending.id === delta.id && size < MERGED_AT_MOST) {
      pending = join(pending, delta);
      size++;
    } else {
      if (pending !== undefined) out(pending);
      pending = delta;
      size = 1;
    }
  }
  if (pending !== undefined) out(pending);
}

/** Merges neighbours within each buffer of RxJS. */
function mergeAll(deltas: readonly Delta[]): Delta[] {
  const merged: Delta[] = [];
  byHand(deltas, (delta) => merged.push(delta));
  return merged;
}

/** Each message has 50 deltas in a row. */
function messages(n: number): Case {
  const deltas = numbers(n).map((i): Delta => ({ id: Math.floor(i / 50), text: '.' }));
  const count = (what: string, source: Observable<readonly Delta[]>): void => {
    let chars = 0;
    source.subscribe((merged) => {
      for (const { text } of merged) chars += text.length;
    });
    assertCount(what, chars, n);
  };
  return {
    name: `text of ${(n / 50).toLocaleString('en')} messages merged from ${n.toLocaleString('en')} deltas`,
    n,
    contestants: {
      'by hand': () => {
        let chars = 0;
        byHand(deltas, ({ text }) => (chars += text.length));
        assertCount('by hand', chars, n);
      },
      'sluice coalesce': () => {
        let chars = 0;
        from(deltas)
          .pipe(coalesce({ merge: join, compatible: (pending, next) => pending.id === next.id, maxSize: MERGED_AT_MOST }))
          .subscribe(({ text }) => (chars += text.length));
        assertCount('coalesce', chars, n);
      },
      'rxjs bufferTime, map': () => {
        count('bufferTime', from(deltas).pipe(bufferTime(16, null, MERGED_AT_MOST), map(mergeAll)));
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => messages(1e6)];
