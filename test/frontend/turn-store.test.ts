import { concat, map, NEVER, of, timer } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import type { AgentTurnOptions, TurnEvent } from '../../src/frontend/turn-types.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { calls, lived, says, tool, whole, word } from './turn-kit.js';

expectNoUnhandledRejections();

const read = tool('read', () => timer(10).pipe(map(() => 'text')));
const slowly: AgentTurnOptions['model'] = () => concat(of('a'), timer(10).pipe(map(() => 'b')));

describe('the store of a conversation', () => {
  it('shows the step under way, and what is settled', () => {
    const seen: string[] = [];
    lived({ tools: [read], needsApproval: () => true, model: says(['hm ', 'ok', calls('read')], ['end']) }, (turns, { ask, advance }) => {
      const store = turns.store();
      store.subscribe(() => {
        const { status, messages, text, calls: open } = store.getSnapshot();
        seen.push(`${status} ${String(messages.length)} "${text}" ${open.map(({ state }) => state).join()}`);
      });
      ask('go');
      turns.answer('call_read', true);
      advance(10);
    });
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

  it('shows what is, also when nobody has looked, to whoever looks next', () => {
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

  it('keeps the turn going while somebody looks: the last to leave ends it', () => {
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

  it('survives a view that throws, and ends when its conversation is forgotten', () => {
    vi.useFakeTimers();
    const turns = createAgentTurn({ model: says(['x']) });
    const broken = turns.store(
      'a',
      (view: number) => {
        if (view === 0) throw new Error('view');
        return view;
      },
      0,
    );
    broken.subscribe(() => undefined);
    const store = turns.store('a');
    store.subscribe(() => undefined);
    turns.ask('go', { key: 'a' }).subscribe();
    expect(store.getSnapshot()).toMatchObject({ status: 'finished' });
    expect(() => vi.runAllTimers()).toThrow('view');
    vi.useRealTimers();
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
