import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';

describe('createWorker', () => {
  it('answers each call as its schedule says, and writes every call down', () => {
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      const worker = createWorker({ marbles: ['--(r|)', '-#', '-r-r|'], answer: (text: string, call) => `${text}${String(call)}` });
      const observer = (name: string) => ({
        next: (value: string) => seen.push(`${String(now())} ${value}`),
        error: (error: unknown) => seen.push(`${String(now())} ${name} ${String(error)}`),
        complete: () => seen.push(`${String(now())} ${name} done`),
      });
      for (const text of ['a', 'b', 'c', 'd']) worker.work(text).subscribe(observer(text));
      expect(worker.running()).toBe(4);
      flush();
      expect(seen).toEqual([
        '1 b Error: the worker failed call 1',
        '1 c2',
        '1 d3',
        '2 a0',
        '2 a done',
        '3 c2',
        '3 d3',
        '4 c done',
        '4 d done',
      ]);
      expect(worker.calls[0]).toEqual({ input: 'a', startedAt: 0, endedAt: 2, outcome: 'ok', aborts: 0 });
      expect(worker.calls.map(({ outcome }) => outcome)).toEqual(['ok', 'failed', 'ok', 'ok']);
      expect(worker.running()).toBe(0);
      expect(worker.peak).toBe(4);
    });
  });

  it('fails on poison whenever it would have answered, with an error of your making', () => {
    virtualTime(({ flush, now }) => {
      const failures: unknown[] = [];
      const worker = createWorker({
        marbles: '---(r|)',
        answer: (items: string[]) => items,
        poison: (items) => items.includes('bad'),
        error: (items, call) => ({ items, call, at: now() }),
      });
      worker.work(['good', 'bad']).subscribe({ error: (error: unknown) => failures.push(error) });
      flush();
      expect(failures).toEqual([{ items: ['good', 'bad'], call: 0, at: 3 }]);
      expect(worker.calls[0]).toMatchObject({ outcome: 'failed', endedAt: 3 });
    });
  });

  it('is cancelled by its subscriber, leaves no timer and counts aborts', () => {
    virtualTime(({ advance }) => {
      const worker = createWorker({ marbles: '-----(r|)', answer: () => 1 });
      const controller = new AbortController();
      const subscription = worker.work('a', { signal: controller.signal }).subscribe();
      advance(2);
      controller.abort();
      subscription.unsubscribe();
      expect(worker.calls).toEqual([{ input: 'a', startedAt: 0, endedAt: 2, outcome: 'cancelled', aborts: 1 }]);
      expect(worker.running()).toBe(0);
    });
  });

  it('can never answer', () => {
    virtualTime(({ advance }) => {
      const worker = createWorker({ marbles: '-', answer: () => 1 });
      const subscription = worker.work('a').subscribe();
      advance(1e6);
      expect(worker.calls[0]).toMatchObject({ outcome: 'running', endedAt: Infinity });
      subscription.unsubscribe();
    });
  });

  it('goes by the input, and tells the answer which letter it stands for', () => {
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      const worker = createWorker({
        marbles: (text: string, call) => (text === 'stream' ? '-a-b|' : `${'-'.repeat(call)}(r|)`),
        answer: (text, _call, letter) => `${text} ${letter}`,
      });
      for (const text of ['stream', 'plain']) worker.work(text).subscribe((value) => seen.push(`${String(now())} ${value}`));
      flush();
      expect(seen).toEqual(['1 stream a', '1 plain r', '3 stream b']);
    });
  });

  it('refuses an empty schedule', () => {
    expect(() => createWorker({ marbles: [], answer: () => 1 })).toThrow(
      'createWorker: expected `marbles` to be a marble text, or a list of at least one, got an array of length 0',
    );
  });
});
