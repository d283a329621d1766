import { concat, config, NEVER, Observable, of, timer } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { policy } from '../../operators/index.js';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { toMessages } from '../../src/frontend/turn-messages.js';
import type { AgentTurns, TurnEvent } from '../../src/frontend/turn-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { messageFaults } from '../support/message-faults.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { calls, tool } from './turn-kit.js';

expectNoUnhandledRejections();

const ENDS: ReadonlySet<string> = new Set(['finished', 'cancelled', 'failed']);

/** Calls on the turns, made from any callback. */
const deeds: Readonly<Record<string, (turns: AgentTurns, seen: readonly TurnEvent[]) => void>> = {
  stop: (turns) => {
    turns.stop();
  },
  'stop another': (turns) => {
    turns.stop('other');
  },
  close: (turns) => {
    turns.close();
  },
  drain: (turns) => {
    void turns.drain({ timeoutMs: 50 });
  },
  forget: (turns) => {
    turns.forget('default');
  },
  'ask again': (turns) => {
    turns.ask('again').subscribe();
  },
  'ask elsewhere': (turns) => {
    turns.ask('elsewhere', { key: 'other' }).subscribe();
  },
  'ask and leave at once': (turns) => {
    turns.ask('again').subscribe().unsubscribe();
  },
  resume: (turns) => {
    turns.resume().subscribe();
  },
  'answer twice, and differently': (turns, seen) => {
    for (const { type, ...event } of seen) {
      if (type !== 'pending') continue;
      const { id } = (event as { readonly call: { readonly id: string } }).call;
      turns.answer(id, true);
      expect(turns.answer(id, false)).toBe(false);
    }
  },
  'answer an unknown call': (turns) => {
    expect(turns.answer('unknown', true)).toBe(false);
  },
  'look and go': (turns) => {
    turns.store().subscribe(() => undefined)();
  },
  'throw away': () => {
    throw new Error('thrown by a callback');
  },
};

/** The places that are called while a turn goes on, and how often each may be. */
const places = [
  'model',
  'execute',
  'needsApproval',
  'guard',
  'teardown of the model',
  'signal of the model',
  'signal of the tool',
  'needsApproval, with a yes',
] as const;
type Place = (typeof places)[number] | `event ${number}`;

/** Two steps: text and three calls, one of which waits for a person, then the answer. `strikes` is called once, at the given place. */
function live(place: Place, strike: (turns: AgentTurns, seen: readonly TurnEvent[]) => void): readonly TurnEvent[] {
  const seen: TurnEvent[] = [];
  virtualTime(({ advance, flush }) => {
    let isDone = false;
    const at = (here: Place): void => {
      if (here !== place || isDone) return;
      isDone = true;
      strike(turns, seen);
    };
    const slow = tool('slow', (_args, { signal }) => {
      signal.addEventListener('abort', () => {
        at('signal of the tool');
      });
      return timer(30);
    });
    const turns: AgentTurns = createAgentTurn({
      tools: createToolRunner({
        tools: [tool('read', () => (at('execute'), 'read')), slow, tool('write', () => 'written')],
        guard: () => (at('guard'), true),
      }),
      needsApproval: ({ name }) => (at(name === 'write' ? 'needsApproval, with a yes' : 'needsApproval'), name === 'write'),
      policy: policy({ timeoutMs: 200 }),
      model: (_messages, { step, signal }) => {
        signal.addEventListener('abort', () => {
          at('signal of the model');
        });
        at('model');
        const answer: Observable<unknown> =
          step === 1 ? of('Let me see. ', calls('read'), calls('slow'), calls('write')) : concat(of('It says '), timer(3), of('this.'));
        return new Observable((subscriber) => {
          subscriber.add(() => {
            at('teardown of the model');
          });
          answer.subscribe(subscriber);
        });
      },
    });
    turns.events.subscribe((event) => {
      seen.push(event);
      at(`event ${seen.length - 1}`);
    });
    turns.ask('What does it say?').subscribe();
    advance(10);
    if (place === 'signal of the tool') turns.stop();
    // A person answers every pending approval in the end.
    for (let i = 0; i < 5; i++) {
      for (const event of [...seen]) if (event.type === 'pending') turns.answer(event.call.id, true);
      advance(21);
      // The second answer has begun.
      if (place === 'signal of the model') turns.stop();
      flush();
    }
    for (const key of ['default', 'other']) {
      const history = turns.history(key);
      for (const protocol of ['chat', 'anthropic', 'responses'] as const)
        expect([protocol, history.length === 0 ? [] : messageFaults(toMessages(history, protocol), protocol)]).toEqual([protocol, []]);
      expect(turns.history(key, { open: true })).toEqual(history);
    }
    expect(turns.snapshot()).toMatchObject({ running: 0, pending: 0, guesses: 0 });
    turns.close();
    flush();
  });
  return seen;
}

function expectWhole(events: readonly TurnEvent[]): void {
  for (const turnId of new Set(events.map((event) => event.turnId))) {
    const own = events.filter((event) => event.turnId === turnId);
    expect(own.filter(({ type }) => ENDS.has(type))).toHaveLength(1);
    expect(ENDS.has(own.at(-1)?.type ?? '')).toBe(true);
    const asked = own.flatMap((event) => (event.type === 'toolCall' ? [event.call.id] : []));
    const answered = own.flatMap((event) => (event.type === 'toolResult' ? [event.result.tool_use_id] : []));
    expect(answered.toSorted()).toEqual(asked.toSorted());
  }
}

const undisturbed = live('event -1', () => undefined);

describe('a turn that is disturbed', () => {
  it('has all these events when it is not', () => {
    expectWhole(undisturbed);
    expect(undisturbed.map(({ type }) => type)).toEqual([
      ...['started', 'delta', 'toolCall', 'toolCall', 'toolCall', 'toolResult', 'pending', 'answered', 'toolResult', 'toolResult', 'step'],
      ...['delta', 'delta', 'step', 'finished'],
    ]);
  });

  const everywhere: readonly Place[] = [...places, ...undisturbed.map((_event, i) => `event ${i}` as const)];
  // What a listener throws is its own, and RxJS reports it.
  const rows = Object.keys(deeds).flatMap((deed) =>
    everywhere
      .filter((place) => deed !== 'throw away' || (places.slice(0, 4) as readonly Place[]).includes(place))
      .map((place) => [deed, place] as const),
  );
  it.each(rows)('%s, at the %s: it ends once, every call is answered, nothing is left', (deed, place) => {
    let isStruck = false;
    const events = live(place, (turns, seen) => {
      isStruck = true;
      (deeds[deed] as (typeof deeds)[string])(turns, seen);
    });
    expect(isStruck).toBe(true);
    expectWhole(events);
  });
});

describe('a conversation', () => {
  const inTheMiddle: Readonly<Record<string, (turns: AgentTurns) => void>> = {
    forget: (turns) => {
      turns.forget('default');
    },
    ask: (turns) => {
      turns.ask('in between').subscribe();
    },
    'forget and ask': (turns) => {
      turns.forget('default');
      turns.ask('in between').subscribe();
    },
    'ask and forget': (turns) => {
      turns.ask('in between').subscribe();
      turns.forget('default');
    },
    'forget, and look at the history': (turns) => {
      turns.forget('default');
      turns.history();
    },
  };
  const moments = ['history', 'model', 'signal', 'started', 'cancelled', 'cancelled, as the asker'] as const;
  const rows = Object.keys(inTheMiddle).flatMap((deed) =>
    moments.flatMap((moment) => [0, 1, 2].map((nth) => [deed, moment, nth] as const)),
  );

  it.each(rows)('has one turn at a time, also with: %s in %s (time %i)', (deed, moment, nth) => {
    const working = new Set<string>();
    let most = 0;
    let times = 0;
    const at = (here: (typeof moments)[number]): void => {
      if (here === moment && times++ === nth) inTheMiddle[deed]?.(turns);
    };
    const turns: AgentTurns = createAgentTurn({
      history: () => (at('history'), []),
      model: (_messages, { turnId, signal }) => {
        signal.addEventListener('abort', () => {
          working.delete(turnId);
          at('signal');
        });
        if (!signal.aborted) working.add(turnId);
        most = Math.max(most, working.size);
        at('model');
        return NEVER;
      },
    });
    const events: TurnEvent[] = [];
    turns.events.subscribe((event) => {
      events.push(event);
      if (event.type === 'started' || event.type === 'cancelled') at(event.type);
    });
    for (const question of ['one', 'two', 'three', 'four']) {
      turns.ask(question).subscribe(({ type }) => {
        if (type === 'cancelled') at('cancelled, as the asker');
      });
      expect(turns.snapshot().running).toBeLessThanOrEqual(1);
    }
    expect(most).toBe(1);
    turns.stop();
    expect([...working]).toEqual([]);
    expect(turns.snapshot().running).toBe(0);
    expectWhole(events);
  });
});

describe('a model that answers with', () => {
  const locked = (): ReadableStream => {
    const stream = new ReadableStream();
    stream.getReader();
    return stream;
  };
  const answers: Readonly<Record<string, () => unknown>> = {
    nothing: () => undefined,
    'a text, which is no stream': () => 'text',
    'a promise that fails': () => Promise.reject(new Error('no')),
    'a stream that already has a reader': locked,
    'an iterable whose iterator cannot be made': () => ({
      [Symbol.asyncIterator]: () => {
        throw new Error('no');
      },
    }),
    'an iterator that answers no object': () => ({ [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve(undefined) }) }),
    'a call without a name': () => of({ type: 'toolCall', call: { id: 'a', input: {} } }),
    'a part without its fields': () => of({ type: 'toolCall' }),
    'events that throw when they are looked at': () =>
      of({
        get type() {
          throw new Error('no');
        },
      }),
  };
  it.each(Object.entries(answers))('%s: the turn fails or is done, and the next one works', async (_what, answer) => {
    let isFirst = true;
    const turns = createAgentTurn({
      tools: createToolRunner({ tools: [tool('read', () => 'read')] }),
      model: () => {
        if (!isFirst) return of('Here.');
        isFirst = false;
        return answer() as Observable<unknown>;
      },
    });
    const events: TurnEvent[] = [];
    turns.events.subscribe((event) => events.push(event));
    await turns.ask('one').forEach(() => undefined);
    await turns.ask('two').forEach(() => undefined);
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'finished', text: 'Here.' });
  });

  it.each<[string, () => unknown]>([
    ['a stream that never says anything', () => NEVER],
    ['a promise that never comes', () => new Promise(() => undefined)],
    [
      'an iterator that hangs, also in `return`',
      () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined), return: () => new Promise(() => undefined) }) }),
    ],
  ])('%s: it can be stopped, left, superseded and closed', async (_what, answer) => {
    for (const how of ['stop', 'leave', 'ask again', 'close'] as const) {
      let isFirst = true;
      const turns = createAgentTurn({
        model: () => {
          if (!isFirst) return of('Here.');
          isFirst = false;
          return answer() as Observable<unknown>;
        },
      });
      const events: TurnEvent[] = [];
      turns.events.subscribe((event) => events.push(event));
      const asked = turns.ask('one').subscribe();
      await Promise.resolve();
      if (how === 'leave') asked.unsubscribe();
      else deeds[how]?.(turns, events);
      await new Promise((resolve) => setTimeout(resolve, 1));
      expectWhole(events);
      expect(events.find(({ turnId }) => turnId === events[0]?.turnId)).toMatchObject({ type: 'started' });
      expect(turns.snapshot().running).toBe(0);
    }
  });
});

describe('the estimate of a cut answer', () => {
  afterEach(() => {
    config.onUnhandledError = null;
  });

  it.each(Object.entries(deeds))('may %s: each turn ends once, and no id is used twice', async (deed, strike) => {
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push(error);
    const stop = new AbortController();
    let isDone = false;
    const turns = createAgentTurn({
      model: (_messages, { step }) =>
        step === 1 && !isDone ? concat(of('Let me see. ', calls('read')) as Observable<unknown>, NEVER) : of('Here.'),
      estimateTokens: (text) => {
        if (isDone) return text.length;
        isDone = true;
        stop.abort();
        strike(turns, events);
        return text.length;
      },
    });
    const events: TurnEvent[] = [];
    turns.events.subscribe((event) => events.push(event));
    turns.ask('one', { signal: stop.signal }).subscribe();
    turns.stop();
    await new Promise((resolve) => setTimeout(resolve, 1));
    expectWhole(events);
    expect(isDone).toBe(true);
    expect(turns.snapshot().running).toBe(0);
    expect(messageFaults(toMessages(turns.history(), 'chat'), 'chat')).toEqual([]);
    expect(reported.map((error) => (error as Error).message)).toEqual(
      deed === 'throw away' ? [expect.stringContaining('`estimateTokens`')] : [],
    );
  });
});
