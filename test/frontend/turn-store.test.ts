import { concat, map, NEVER, of, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import type { AgentTurnOptions, TurnEvent, TurnStoreOptions } from '../../src/frontend/turn-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { calls, lived, says, tool, whole, word } from './turn-kit.js';

expectNoUnhandledRejections();

const read = tool('read', () => timer(10).pipe(map(() => 'text')));
const slowly: AgentTurnOptions['model'] = () => concat(of('a'), timer(10).pipe(map(() => 'b')));

describe('the store of a conversation', () => {
  it('shows the step under way, and what is settled', () => {
    const seen: string[] = [];
    lived(
      { tools: createToolRunner({ tools: [read] }), needsApproval: () => true, model: says(['hm ', 'ok', calls('read')], ['end']) },
      (turns, { ask, advance }) => {
        const store = turns.store();
        store.subscribe(() => {
          const { status, messages, text, calls: open } = store.getSnapshot();
          seen.push(`${status} ${String(messages.length)} "${text}" ${open.map(({ state }) => state).join()}`);
        });
        ask('go');
        turns.answer('call_read', true);
        advance(10);
      },
    );
    expect(seen).toEqual([
      'running 1 "" ',
      'running 1 "hm " ',
      'running 1 "hm ok" ',
      'running 1 "hm ok" running',
      'waiting 1 "hm ok" pending',
      'running 1 "hm ok" running',
      'running 1 "hm ok" done',
      'running 3 "" ',
      'running 3 "end" ',
      'running 4 "" ',
      'finished 4 "" ',
    ]);
  });

  it('is the same one each time, for a key, a view and a pace, and knows the turn it is asked for in the middle of', () => {
    lived({ model: slowly }, (turns, { ask }) => {
      expect(turns.store()).toBe(turns.store('default'));
      expect(turns.store('a')).not.toBe(turns.store('b'));
      const count = (sum: number, { type }: TurnEvent): number => (type === 'delta' ? sum + 1 : sum);
      expect(turns.store('a', count, 0)).toBe(turns.store('a', count, 5));
      ask('go', 'a');
      const paced = turns.store('a', { pace: 'time', maxWaitMs: 5 });
      expect(turns.store('a', { maxWaitMs: 5, pace: 'time' })).toBe(paced);
      expect(turns.store('a', { pace: 'time', maxWaitMs: 6 })).not.toBe(paced);
      expect(paced.getSnapshot()).toEqual(turns.store('a').getSnapshot());
      expect(paced.getSnapshot()).toMatchObject({ status: 'running', text: 'a' });
      turns.stop('a');
      expect(turns.history('a')).toEqual(paced.getSnapshot().messages);
      expect(turns.store('a', count, 0).getSnapshot()).toBe(1);
    });
  });

  it('has the current snapshot also for changes without subscribers', () => {
    lived({ model: slowly }, (turns, { ask, advance }) => {
      const store = turns.store();
      const leave = store.subscribe(() => undefined);
      ask('go');
      leave();
      expect(store.getSnapshot()).toMatchObject({ status: 'cancelled' });
      expect(store.getSnapshot().messages.map(word)).toEqual(['? go', '! a (cut)']);
      ask('again');
      advance(10);
      expect(store.getSnapshot()).toMatchObject({ status: 'finished' });
      expect(store.select(({ status }) => status).getSnapshot()).toBe('finished');
      expect(store.getServerSnapshot().status).toBe('idle');
    });
  });

  it('keeps the turn running while it has a subscriber: the last to leave ends it', () => {
    const { events } = lived({ model: slowly }, (turns, { ask, advance }) => {
      const first = turns.store().subscribe(() => undefined);
      const second = turns.store('default', { pace: 'time', maxWaitMs: 1, keepAliveMs: 50 }).subscribe(() => undefined);
      ask('a');
      first();
      advance(2);
      second();
      advance(4);
      // Came back in time, as a component does that is shown anew.
      const third = turns.store('default', { pace: 'time', maxWaitMs: 1, keepAliveMs: 50 }).subscribe(() => undefined);
      advance(100);
      ask('b');
      third();
      advance(5);
      const looks = turns.store('default', (n: number) => n + 1, 0, { stopsTurn: false }).subscribe(() => undefined);
      looks();
    });
    expect(events.filter((event) => /finished|cancelled/.test(event))).toEqual(['10: 1 finished done', '116: 1 finished done']);
    const left = lived({ model: () => NEVER }, (turns, { ask }) => {
      const leave = turns.store().subscribe(() => undefined);
      ask('a');
      leave();
    });
    expect(left.events.at(-1)).toBe('0: 1 cancelled left');
  });

  const PACES: readonly TurnStoreOptions[] = [{}, { pace: 'time', maxWaitMs: 3 }, { maxWaitMs: 3, keepAliveMs: 50 }];
  it.each([0, 1, 2, 3, 4].flatMap((place) => PACES.map((pace) => ({ place, ...pace }))))(
    'is failed by a `reduce` that throws, and nothing else is: %o',
    ({ place, ...options }) => {
      const fault = new Error('view');
      const reduce = (count: number): number => {
        if (count === place) throw fault;
        return count + 1;
      };
      const told: string[] = [];
      const { events, turns } = lived({ model: slowly }, (all, { ask, advance }) => {
        const store = all.store('default', reduce, 0, options);
        const looked = (): unknown => [store.getSnapshot(), store.select((count) => count * 2).getSnapshot()];
        const leave = store.subscribe(() => told.push(store.status));
        ask('go');
        advance(20);
        expect(store.status).toBe('failed');
        expect(store.error).toMatchObject({ code: 'FLOW_CALLBACK', operator: 'createAgentTurn', callback: 'reduce', cause: fault });
        expect(looked()).toEqual([place, place * 2]);
        leave();
        advance(60);
        // As in any store: without subscribers the error is forgotten until one subscribes.
        expect([store.status, store.error, looked()]).toEqual(['idle', undefined, [place, place * 2]]);
        store.subscribe(() => told.push(store.status));
        all.forget('default');
        expect(store.status).toBe('failed');
      });
      expect(told.filter((status) => status === 'failed')).toHaveLength(2);
      const { events: alone } = lived({ model: slowly }, (_all, { ask }) => {
        ask('go');
      });
      expect(events).toEqual(alone);
      expect(turns.snapshot()).toMatchObject({ finished: 1, failed: 0, cancelled: 0 });
    },
  );

  it('ends when its conversation is forgotten', async () => {
    const turns = createAgentTurn({ model: says(['x']) });
    const store = turns.store('a');
    store.subscribe(() => undefined);
    await whole(turns.ask('go', { key: 'a' }));
    turns.forget('a');
    expect(store.status).toBe('completed');
    expect(turns.history('a')).toEqual([]);
    expect(turns.store('a')).not.toBe(store);
  });

  it('shows a failure and lets the next question work', async () => {
    let isBroken = true;
    const turns = createAgentTurn({
      model: () => {
        if (isBroken) throw new Error('down');
        return of('up');
      },
    });
    const store = turns.store();
    store.subscribe(() => undefined);
    await whole(turns.ask('a'));
    expect(store.getSnapshot()).toMatchObject({ status: 'failed', error: new Error('down') });
    expect(store.status).toBe('live');
    isBroken = false;
    await whole(turns.ask('b'));
    expect(store.getSnapshot()).toMatchObject({ status: 'finished' });
    expect(store.getSnapshot().error).toBeUndefined();
  });
});
