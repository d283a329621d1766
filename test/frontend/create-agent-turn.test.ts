import type { Subscription } from 'rxjs';
import { concat, from, map, NEVER, Observable, of, Subject, take, throwError, timer } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { policy } from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { toMessages } from '../../src/frontend/turn-messages.js';
import type { AgentTurnOptions, AgentTurns, TurnEvent, TurnMessage } from '../../src/frontend/turn-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { MORE_THAN_A_STACK } from '../support/deep.js';
import { messageFaults } from '../support/message-faults.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { calls, line, lived, says, tool, whole, word } from './turn-kit.js';

expectNoUnhandledRejections();

const read = tool('read', (input) => `read ${JSON.stringify(input)}`, { readOnly: true });
const slow = tool('slow', () => timer(10).pipe(map(() => 'done')));
const hangs = tool('hangs', () => NEVER);
const after = <V>(ms: number, ...values: V[]): Observable<V> => concat(timer(ms).pipe(map(() => values[0] as V)), of(...values.slice(1)));

describe('a turn', () => {
  it('asks, calls, and asks again', async () => {
    const turns = createAgentTurn({
      tools: createToolRunner({ tools: [read] }),
      model: says(['let me see', calls('read', { a: 1 })], ['it ', 'is 1']),
    });
    expect((await whole(turns.ask('what?'))).map(line)).toEqual([
      '0 started',
      '1 delta let me see',
      '1 toolCall call_read',
      '1 toolResult call_read: read {"a":1}',
      '1 step',
      '2 delta it ',
      '2 delta is 1',
      '2 step',
      '2 finished done',
    ]);
    expect(turns.history().map(word)).toEqual(['? what?', '! let me see @call_read', 'call_read=read {"a":1}', '! it is 1']);
  });

  it('starts when it is subscribed to, and anew for each subscriber', async () => {
    let asked = 0;
    const turns = createAgentTurn({ model: () => of(`answer ${String(++asked)}`) });
    const turn = turns.ask('again');
    expect(asked).toBe(0);
    await whole(turn);
    await whole(turn);
    expect(turns.history().map(word)).toEqual(['? again', '! answer 1', '? again', '! answer 2']);
  });

  it('gives the model its step, and the context to the model, tools, guard and approval', async () => {
    const context = { user: 'ada' };
    const seen: unknown[] = [];
    const turns = createAgentTurn<{ user: string }>({
      tools: createToolRunner<{ user: string }>({
        tools: [tool('t', (_args, given) => void seen.push(given.context))],
        guard: (_call, given) => seen.push(given.context) > 0,
      }),
      needsApproval: (_call, given) => seen.push(given.context) < 0,
      model: (messages, { key, step, turnId, tools, context: given }) => {
        seen.push(given);
        expect([key, step, turnId, tools.map(({ name }) => name), messages.length]).toEqual(['k', step, 'turn_1', ['t'], step * 2 - 1]);
        return of(step === 1 ? calls('t') : 'end');
      },
    });
    await whole(turns.ask('go', { key: 'k', context }));
    expect(seen).toEqual([context, context, context, context, context]);
  });

  it('ends with maxSteps when the model wants more', async () => {
    const turns = createAgentTurn({ tools: createToolRunner({ tools: [read] }), maxSteps: 2, model: says([calls('read')]) });
    const events = await whole(turns.ask('go'));
    expect(events.at(-1)).toMatchObject({ type: 'finished', reason: 'maxSteps', step: 2 });
    expect(turns.history().map(word)).toEqual(
      ['? go', '! @call_read', 'call_read=read {}', '! @call_read_2', 'call_read_2=read {}'].map((w) => w.replace('! @', '!  @')),
    );
  });

  it('sums what the model counts, by step and in all', async () => {
    const usage = { type: 'usage', inputTokens: 10, outputTokens: 3 };
    const turns = createAgentTurn({
      tools: createToolRunner({ tools: [read] }),
      model: says([calls('read'), usage], ['end', { ...usage, outputTokens: 4 }, { type: 'stop', reason: 'stop' }]),
    });
    const events = await whole(turns.ask('go'));
    expect(events.flatMap((event) => (event.type === 'step' ? [[event.reason, event.usage]] : []))).toEqual([
      [undefined, { inputTokens: 10, outputTokens: 3 }],
      ['stop', { inputTokens: 10, outputTokens: 4 }],
    ]);
    expect(events.at(-1)).toMatchObject({ usage: { inputTokens: 20, outputTokens: 7 } });
  });

  it('gives every call an id of its own, whatever the server says', async () => {
    const turns = createAgentTurn({
      tools: createToolRunner({ tools: [read] }),
      model: says(
        [calls('read', 1, 'c'), calls('read', 2, 'c'), calls('read', 3, '')],
        [calls('read', 4, 'c'), calls('read', 5, 'a b')],
        ['end'],
      ),
    });
    await whole(turns.ask('go'));
    const ids = turns.history().flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message.content]] : []));
    expect(ids).toEqual([
      ['c', 'read 1'],
      ['c_2', 'read 2'],
      ['call_3', 'read 3'],
      ['c_4', 'read 4'],
      ['a_b', 'read 5'],
    ]);
  });

  it.each([{}, { id: null }, { id: '' }, { id: 'call_0' }])(
    'makes the calls of chunks with %j, and arguments that are an object',
    async (id) => {
      const chunk = (tool_calls: readonly object[], finish_reason?: string): object => ({
        choices: [{ delta: { tool_calls }, finish_reason }],
      });
      const both = ['{"x":1}', { y: 1 }].map((args, index) => ({ index, ...id, function: { name: 'read', arguments: args } }));
      const turns = createAgentTurn({
        tools: createToolRunner({ tools: [read] }),
        model: (messages) => (messages.at(-1)?.role === 'tool' ? of('end') : from([chunk(both), chunk([], 'tool_calls')])),
      });
      for (let i = 0; i < 2; i++) expect((await whole(turns.ask('go'))).at(-1)).toMatchObject({ type: 'finished', reason: 'done' });
      const results = turns.history().flatMap((message) => (message.role === 'tool' ? [message] : []));
      expect(results.map(({ content }) => content)).toEqual(['read {"x":1}', 'read {"y":1}', 'read {"x":1}', 'read {"y":1}']);
      expect(new Set(results.map(({ toolCallId }) => toolCallId)).size).toBe(4);
      expect(messageFaults(toMessages(turns.history(), 'chat'), 'chat')).toEqual([]);
    },
  );

  it('has no message of an answer without a word', async () => {
    const turns = createAgentTurn({ model: says([' ', '\n']) });
    expect((await whole(turns.ask('go'))).at(-1)).toMatchObject({ type: 'finished', reason: 'done' });
    expect(turns.history().map(word)).toEqual(['? go']);
  });

  it('does not recurse: two thousand steps that answer at once, and many thousand deltas', async () => {
    const many = createAgentTurn({ tools: createToolRunner({ tools: [read] }), maxSteps: 2000, model: () => of(calls('read')) });
    let steps = 0;
    await many.ask('go').forEach(({ type }) => (steps += type === 'step' ? 1 : 0));
    expect(steps).toBe(2000);
    const long = createAgentTurn({
      model: () =>
        new Observable((subscriber) => {
          for (let i = 0; i < MORE_THAN_A_STACK; i++) subscriber.next('x');
          subscriber.complete();
        }),
    });
    const events = await whole(long.ask('go'));
    expect(events.at(-1)).toMatchObject({ type: 'finished', text: 'x'.repeat(MORE_THAN_A_STACK) });
  }, 30_000);

  it('stops a model that speaks at once as soon as its asker has enough', () => {
    let said = 0;
    const turns = createAgentTurn({
      model: () =>
        new Observable((subscriber) => {
          for (; said < 1000 && !subscriber.closed; said++) subscriber.next('x');
        }),
    });
    turns.ask('go').pipe(take(4)).subscribe();
    expect(said).toBeLessThan(6);
    expect(turns.snapshot()).toMatchObject({ running: 0, cancelled: 1 });
  });
});

describe('failures', () => {
  it.each<[string, AgentTurnOptions['model'], object]>([
    [
      'throws',
      () => {
        throw new Error('no model');
      },
      { message: 'no model' },
    ],
    ['rejects', () => Promise.reject(new Error('no stream')), { message: 'no stream' }],
    [
      'errors in the middle',
      () =>
        concat(
          of('half'),
          throwError(() => new Error('cut')),
        ),
      { message: 'cut' },
    ],
    ['returns no stream', () => 5 as never, { code: 'FLOW_CALLBACK' }],
    ['says that it failed', () => of({ type: 'error', error: { message: 'overloaded' } }), { name: 'ProviderError' }],
    [
      'ends within a call',
      () => of({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'read', arguments: '{"a' } }] } }] }),
      { code: 'FLOW_TOOL_CALL_UNFINISHED', ids: ['c'] },
    ],
    [
      'ends within calls without an id',
      () =>
        of({
          choices: [{ index: 0, delta: { tool_calls: [0, 1].map((index) => ({ index, function: { name: 'read', arguments: '{"a' } })) } }],
        }),
      { ids: ['no_id_1', 'no_id_2'], message: 'createAgentTurn: the stream ended within `no_id_1`, `no_id_2`' },
    ],
  ])('are events: a model that %s', async (_what, model, error) => {
    let isBroken = true;
    const turns = createAgentTurn({ model: (messages, context) => (isBroken ? model(messages, context) : of('better')) });
    const events = await whole(turns.ask('first'));
    expect(events.at(-1)).toMatchObject({ type: 'failed', error: expect.objectContaining(error) as object });
    isBroken = false;
    expect((await whole(turns.ask('second'))).at(-1)).toMatchObject({ type: 'finished', text: 'better' });
  });

  it('keep what was said, and tell what it cost', async () => {
    const turns = createAgentTurn({
      model: () =>
        concat(
          of('one two ', 'three four'),
          throwError(() => new Error('cut')),
        ),
    });
    const last = (await whole(turns.ask('go'))).at(-1) as Extract<TurnEvent, { type: 'failed' }>;
    expect(last.wasted.chunks).toBe(2);
    expect(last.wasted.estimatedTokens).toBeGreaterThan(3);
    expect(turns.snapshot().wastedTokens).toBe(last.wasted.estimatedTokens);
    expect(turns.history().map(word)).toEqual(['? go', '! one two three four (cut)']);
    expect(last.kept).toEqual(turns.history());
  });

  it('of history are events, and leave the next question its chance', async () => {
    let isBroken = true;
    const fault = new Error('no store');
    const turns = createAgentTurn({
      model: says(['x']),
      history: () => {
        if (isBroken) throw fault;
        return [];
      },
    });
    const [event] = await whole(turns.ask('go'));
    expect(event).toMatchObject({ type: 'failed', error: { code: 'FLOW_CALLBACK', callback: 'history', cause: fault } });
    for (const use of [() => turns.history(), () => turns.store()]) expect(use).toThrow(expect.objectContaining({ callback: 'history' }));
    isBroken = false;
    expect((await whole(turns.ask('go'))).at(-1)).toMatchObject({ type: 'finished' });
  });

  it.each((['text', 'reasoning'] as const).flatMap((type) => [undefined, null, 5, NaN, true, {}, ['x']].map((text) => ({ type, text }))))(
    'of a model with a text that is no string are ignored: %o',
    async (part) => {
      const without = await whole(createAgentTurn({ model: says(['a', 'b']) }).ask('go'));
      const turns = createAgentTurn({ model: says(['a', part, 'b']) });
      expect(await whole(turns.ask('go'))).toEqual(without);
      expect(turns.history().map(word)).toEqual(['? go', '! ab']);
    },
  );

  it('of a tool are what the model reads', async () => {
    const broken = createAgentTurn({
      tools: createToolRunner({
        tools: [
          tool('t', () => {
            throw new Error('broken');
          }),
        ],
      }),
      model: says([calls('t'), calls('none')], ['sorry']),
    });
    await whole(broken.ask('go'));
    expect(broken.history().map(word)).toEqual(['? go', '!  @call_t @call_none', 'call_t=failed', 'call_none=unknown_tool', '! sorry']);
  });

  it('of the clock: a step, or the whole turn, that takes too long', () => {
    const step = lived(
      {
        tools: createToolRunner({ tools: [slow] }),
        policy: policy({ timeoutMs: 15 }),
        model: (_m, { step: n }) => after(8, n === 1 ? calls('slow') : 'x'),
      },
      (_turns, { ask }) => {
        ask('go');
      },
    );
    expect(step.events.at(-1)).toBe('15: 1 failed AttemptTimeoutError');
    expect(step.history).toEqual(['? go', '!  @call_slow (cut)', 'call_slow=cancelled']);
    const turn = lived(
      {
        tools: createToolRunner({ tools: [slow] }),
        policy: policy({ deadlineMs: 30, timeoutMs: Infinity }),
        model: () => after(8, calls('slow')),
      },
      (_turns, { ask }) => {
        ask('go');
      },
    );
    expect(turn.events.slice(-2)).toEqual(['30: 2 toolResult call_slow_2: cancelled', '30: 2 failed DeadlineError']);
  });
});

describe('the newest question', () => {
  it('ends the one before: signal first, then its end, then the new turn', () => {
    const told: string[] = [];
    const { events, history } = lived(
      {
        model: (messages, { signal }) => {
          const about = word(messages.at(-1) as TurnMessage);
          signal.addEventListener('abort', () => told.push(`aborted ${about}: ${(signal.reason as Error).name}`));
          told.push(`asked ${about}`);
          return concat(of(`about ${about}`), after(10, '.'));
        },
      },
      (_turns, { ask, advance }) => {
        ask('a');
        advance(5);
        ask('b');
      },
    );
    expect(told).toEqual(['asked ? a', 'aborted ? a: AbortError', 'asked ? b']);
    expect(events.filter((event) => !event.includes('delta') && !event.includes('step'))).toEqual([
      '0: 0 started',
      '5: 1 cancelled superseded',
      '5: 0 started',
      '15: 1 finished done',
    ]);
    expect(history).toEqual(['? a', '! about ? a (cut)', '? b', '! about ? b.']);
  });

  it('leaves nothing of one that nothing was said to, and of any other with unfinished: drop', () => {
    const typed = (turns: unknown, { ask, advance }: { ask: (text: string) => void; advance: (ms: number) => void }): void => {
      ask('wea');
      advance(1);
      ask('weather');
      advance(7);
      ask('weather in Oslo');
    };
    const model: AgentTurnOptions['model'] = () => after(5, 'it ', 'is ');
    const silent: AgentTurnOptions['model'] = (messages, context) =>
      concat(model(messages, context) as Observable<string>, after(5, 'sunny'));
    expect(lived({ model: silent }, typed).history).toEqual(['? weather', '! it is  (cut)', '? weather in Oslo', '! it is sunny']);
    expect(lived({ model: silent, unfinished: 'drop' }, typed).history).toEqual(['? weather in Oslo', '! it is sunny']);
  });

  it('wins within its conversation only', () => {
    const { turns } = lived({ model: () => after(5, 'x') }, (_turns, { ask }) => {
      ask('1', 'a');
      ask('2', 'b');
      ask('3', 'a');
    });
    expect(turns.snapshot()).toMatchObject({ conversations: 3, finished: 2, cancelled: 1 });
    expect(turns.history('a').map(word)).toEqual(['? 3', '! x']);
    expect(turns.history('b').map(word)).toEqual(['? 2', '! x']);
  });

  it('is the one that was asked last, also while an older one is being ended', () => {
    const { events, history } = lived(
      {
        model: (messages, { signal }) => {
          if (word(messages.at(-1) as TurnMessage) === '? a')
            signal.addEventListener('abort', () => {
              asks('between');
            });
          return concat(of('x'), after(5, 'y'));
        },
      },
      (_turns, { ask }) => {
        asks = ask;
        ask('a');
        ask('b');
      },
    );
    expect(events.filter((event) => /started|cancelled|finished/.test(event))).toEqual([
      '0: 0 started',
      '0: 1 cancelled superseded',
      // That of `b`, which never began.
      '0: 0 cancelled superseded',
      '0: 0 started',
      '5: 1 finished done',
    ]);
    expect(history.at(-1)).toBe('! xy');
    expect(history.filter((one) => one.startsWith('?'))).toEqual(['? a', '? between']);
  });
  let asks: (text: string) => void = () => undefined;
});

describe('an end before its time', () => {
  const model: AgentTurnOptions['model'] = () => of('let me see', calls('hangs'), calls('read', 1));

  it.each<[string, (turns: ReturnType<typeof createAgentTurn>, controller: AbortController, leave: () => void) => void]>([
    [
      'stopped',
      (turns) => {
        turns.stop('default');
      },
    ],
    [
      'stopped',
      (turns) => {
        turns.stop();
      },
    ],
    [
      'aborted',
      (_turns, controller) => {
        controller.abort();
      },
    ],
    [
      'left',
      (_turns, _controller, leave) => {
        leave();
      },
    ],
    [
      'closed',
      (turns) => {
        turns.close();
      },
    ],
  ])('is told as %s, with a result of every call', (reason, end) => {
    const turns = createAgentTurn({ tools: createToolRunner({ tools: [hangs, read] }), model });
    const all: string[] = [];
    const heard: string[] = [];
    turns.events.subscribe((event) => all.push(line(event)));
    const controller = new AbortController();
    const asker = turns.ask('go', { signal: controller.signal }).subscribe((event) => heard.push(line(event)));
    end(turns, controller, () => {
      asker.unsubscribe();
    });
    expect(all.slice(-3)).toEqual(['1 toolResult call_read: read 1', '1 toolResult call_hangs: cancelled', `1 cancelled ${reason}`]);
    expect(heard).toEqual(reason === 'left' ? all.slice(0, -2) : all);
    expect(turns.history().map(word)).toEqual([
      '? go',
      '! let me see @call_hangs @call_read (cut)',
      'call_hangs=cancelled',
      'call_read=read 1',
    ]);
    expect(turns.snapshot()).toMatchObject({ running: 0, cancelled: 1 });
  });

  it('comes before the beginning where the signal has aborted, or all is closed', async () => {
    const turns = createAgentTurn({ model: says(['x']) });
    expect((await whole(turns.ask('go', { signal: AbortSignal.abort() }))).map(line)).toEqual(['0 cancelled aborted']);
    turns.close();
    expect((await whole(turns.ask('go'))).map(line)).toEqual(['0 failed ClosedError']);
    expect(turns.history()).toEqual([]);
  });

  it('lets running turns go on while it drains', () => {
    virtualTime(({ advance }) => {
      const turns = createAgentTurn({
        tools: createToolRunner({ tools: [slow] }),
        model: (_m, { step }) => of(step === 1 ? calls('slow') : 'end'),
      });
      const ends: string[] = [];
      turns.events.subscribe({ next: (event) => ends.push(line(event)), complete: () => ends.push('complete') });
      turns.ask('go').subscribe();
      void turns.drain();
      turns.ask('too late').subscribe();
      advance(10);
      expect(ends.slice(-2)).toEqual(['2 finished done', 'complete']);
      expect(ends).toContain('0 failed ClosedError');
    });
  });

  interface Draining {
    readonly turns: AgentTurns;
    readonly answers: Subject<string>;
    readonly stop: AbortController;
    readonly asked: Subscription;
  }
  it.each<[string, Partial<Drained>, (of: Draining) => unknown]>([
    ['nothing happens', { done: 1 }, () => undefined],
    [
      'it fails',
      { done: 1 },
      ({ answers }) => {
        answers.error(new Error('of the model'));
      },
    ],
    ['a question is refused', { done: 1 }, ({ turns }) => turns.ask('late').subscribe()],
    ['one of another conversation is refused', { done: 1 }, ({ turns }) => turns.ask('late', { key: 'other' }).subscribe()],
    ['one that goes on is refused', { done: 1 }, ({ turns }) => turns.resume({ key: 'other' }).subscribe()],
    ['one has aborted already', { done: 1 }, ({ turns }) => turns.ask('late', { signal: AbortSignal.abort() }).subscribe()],
    ['one cannot be made', { done: 1 }, ({ turns }) => turns.ask('late', { key: 'bad' }).subscribe()],
    [
      'it is left',
      {},
      ({ asked }) => {
        asked.unsubscribe();
      },
    ],
    [
      'its signal aborts',
      {},
      ({ stop }) => {
        stop.abort();
      },
    ],
    [
      'it is stopped',
      {},
      ({ turns }) => {
        turns.stop();
      },
    ],
    [
      'all is closed',
      { aborted: 1 },
      ({ turns }) => {
        turns.close();
      },
    ],
  ])('counts what was accepted and nothing else while it drains: %s', async (_name, counts, act) => {
    for (const times of [1, 3]) {
      const answers = new Subject<string>();
      const stop = new AbortController();
      const turns: AgentTurns = createAgentTurn({
        model: () => answers,
        history: (key) => (key === 'bad' ? (undefined as never) : []),
      });
      const asked = turns.ask('go', { signal: stop.signal }).subscribe();
      const drained = turns.drain();
      for (let i = 0; i < times; i++) act({ turns, answers, stop, asked });
      answers.complete();
      expect(await drained).toEqual({ done: 0, aborted: 0, dropped: 0, ...counts });
    }
  });

  it('leaves a runner of yours open', async () => {
    const runner = createToolRunner({ tools: [read] });
    const turns = createAgentTurn({ tools: runner, model: says(['x']) });
    await turns.drain();
    expect((await runner.runAllAsync([{ id: 'a', name: 'read', input: 1 }])).summary.successful).toBe(1);
    runner.addTools([slow]);
    runner.removeTools(['slow']);
    await runner.drain();
  });

  it('does not end with a teardown that throws', () => {
    vi.useFakeTimers();
    const turns = createAgentTurn({
      model: () =>
        new Observable(() => () => {
          throw new Error('teardown');
        }),
    });
    const seen: string[] = [];
    turns.ask('go').subscribe((event) => seen.push(line(event)));
    turns.stop();
    expect(seen).toEqual(['0 started', '1 cancelled stopped']);
    expect(() => vi.runAllTimers()).toThrow('teardown');
    vi.useRealTimers();
  });
});

describe('approval', () => {
  const pays = tool('pay', (input) => `paid ${JSON.stringify(input)}`);
  const options: AgentTurnOptions = {
    tools: createToolRunner({ tools: [pays, read, slow] }),
    needsApproval: ({ name }) => name === 'pay',
    model: says([calls('pay', { n: 1, m: 2 }, 'a'), calls('read', 1, 'b')], ['end']),
  };

  it('waits for one call while the others go on', () => {
    const { events } = lived(options, (turns, { ask, advance }) => {
      ask('go');
      expect(turns.snapshot()).toMatchObject({ running: 1, pending: 1 });
      advance(100);
      expect(turns.answer('b', true)).toBe(false);
      expect(turns.answer('a', true, { key: 'other' })).toBe(false);
      expect(turns.answer('a', true)).toBe(true);
      expect(turns.answer('a', true)).toBe(false);
    });
    expect(events).toEqual([
      '0: 0 started',
      '0: 1 toolCall a',
      '0: 1 toolCall b',
      '0: 1 pending a',
      '0: 1 toolResult b: read 1',
      '100: 1 answered a true',
      '100: 1 toolResult a: paid {"n":1,"m":2}',
      '100: 1 step',
      '100: 2 delta end',
      '100: 2 step',
      '100: 2 finished done',
    ]);
  });

  it.each<[boolean | string, string]>([
    [false, 'permission denied'],
    ['ask me tomorrow', 'permission denied: ask me tomorrow'],
  ])('that is %j is what the model reads', (verdict, message) => {
    const { events, turns } = lived(options, (made, { ask }) => {
      ask('go');
      made.answer('a', verdict);
    });
    expect(events).toContain('0: 1 answered a false');
    expect(turns.history()).toContainEqual({
      role: 'tool',
      toolCallId: 'a',
      name: 'pay',
      content: JSON.stringify({ error: { code: 'permission_denied', message } }),
      isError: true,
    });
  });

  it('counts for equal calls of the turn, whatever the order of their fields, and for all of the tool where that was said', () => {
    const twice = {
      ...options,
      model: says(
        [calls('pay', { n: 1, m: 2 }, 'a'), calls('pay', { m: 2, n: 1 }, 'b')],
        [calls('pay', { m: 2, n: 1 }, 'c'), calls('pay', { n: 2 }, 'd')],
        ['end'],
      ),
    };
    const pending = (events: readonly string[]): string[] => events.filter((event) => event.includes('pending'));
    const same = lived(twice, (turns, { ask }) => {
      ask('go');
      turns.answer('b', true);
      turns.answer('d', false);
      ask('again');
    });
    expect(pending(same.events)).toEqual(['0: 1 pending a', '0: 1 pending b', '0: 2 pending d', '0: 1 pending a_5', '0: 1 pending b_6']);
    const all = lived(twice, (turns, { ask }) => {
      ask('go');
      turns.answer('a', true, { appliesTo: 'tool' });
    });
    expect(pending(all.events)).toEqual(['0: 1 pending a', '0: 1 pending b']);
    expect(all.events.at(-1)).toBe('0: 3 finished done');
  });

  it('stops the clock of the step, not that of the turn', () => {
    const patient = lived(
      {
        ...options,
        policy: policy({ timeoutMs: 20 }),
        model: (_m, { step }) => after(15, ...(step === 1 ? [calls('pay', 1, 'a')] : ['end'])),
      },
      (turns, { ask, advance }) => {
        ask('go');
        advance(1000);
        turns.answer('a', true);
      },
    );
    expect(patient.events.at(-1)).toBe('1015: 2 finished done');
    const late = lived(
      {
        ...options,
        policy: policy({ timeoutMs: 20 }),
        tools: createToolRunner({ tools: [tool('pay', () => NEVER)] }),
        model: () => after(15, calls('pay', 1, 'a')),
      },
      (turns, { ask, advance }) => {
        ask('go');
        advance(1000);
        turns.answer('a', true);
      },
    );
    expect(late.events.at(-1)).toBe('1005: 1 failed AttemptTimeoutError');
    const hurried = lived({ ...options, policy: policy({ deadlineMs: 500, timeoutMs: Infinity }) }, (_turns, { ask }) => {
      ask('go');
    });
    expect(hurried.events.at(-1)).toBe('500: 1 failed DeadlineError');
  });

  it('is denied when `needsApproval` throws, and never requested for an unknown tool', () => {
    const { events } = lived(
      {
        ...options,
        needsApproval: () => {
          throw new Error('broken');
        },
        model: says([calls('pay', 1, 'a'), calls('none', 1, 'b')], ['end']),
      },
      (_turns, { ask }) => {
        ask('go');
      },
    );
    expect(events).toContain('0: 1 toolResult a: permission_denied');
    expect(events).toContain('0: 1 toolResult b: unknown_tool');
  });
});

describe('a history that is given', () => {
  const toolCalls = ['a', 'b'].map((id) => ({ id, name: 'read', input: id }));
  const open: TurnMessage[] = [
    { role: 'user', content: 'before' },
    { role: 'assistant', content: 'let me see', toolCalls },
    { role: 'tool', toolCallId: 'b', name: 'read', content: 'known', isError: false },
  ];

  it('is gone on with after a reload: calls without a result first', () => {
    const { events, history } = lived(
      { tools: createToolRunner({ tools: [read] }), history: open, model: (messages) => of(`${String(messages.length)} messages`) },
      (turns) => {
        expect(turns.history().map(word)).toEqual(['? before']);
        expect(turns.history('default', { open: true })).toEqual(open);
        turns.resume().subscribe();
      },
    );
    expect(events).toEqual([
      '0: 0 started',
      '0: 1 toolCall a',
      '0: 1 toolResult a: read "a"',
      '0: 1 step',
      '0: 2 delta 4 messages',
      '0: 2 step',
      '0: 2 finished done',
    ]);
    expect(history).toEqual(['? before', '! let me see @a @b', 'a=read "a"', 'b=known', '! 4 messages']);
  });

  it('is closed by a question', () => {
    const { history } = lived(
      { tools: createToolRunner({ tools: [read] }), history: () => open, model: says(['yes']) },
      (turns, { ask }) => {
        ask('and?');
        expect(turns.store().getSnapshot().messages).toEqual(turns.history());
      },
    );
    expect(history).toEqual(['? before', '! let me see @a @b', 'a=cancelled', 'b=known', '? and?', '! yes']);
  });

  it('with nothing open has nothing to go on with; with a question it is answered', () => {
    const ended = lived({ history: [{ role: 'assistant', content: 'Hello.', toolCalls: [] }], model: says(['x']) }, (turns) => {
      turns.resume().subscribe();
    });
    expect(ended.events).toEqual(['0: 0 started', '0: 0 finished done']);
    const asked = lived({ history: [{ role: 'user', content: 'hello' }], model: says(['x']) }, (turns) => {
      turns.resume().subscribe();
    });
    expect(asked.history).toEqual(['? hello', '! x']);
  });

  it('can be taken at any moment, and lived on', async () => {
    let saved: readonly TurnMessage[] = [];
    const first = createAgentTurn({ tools: createToolRunner({ tools: [hangs, read] }), model: says([calls('hangs'), calls('read', 1)]) });
    first.ask('go').subscribe(() => {
      saved = first.history('default', { open: true });
    });
    first.events.subscribe();
    expect(saved.map(word)).toEqual(['? go', '!  @call_hangs @call_read', 'call_read=read 1']);
    const second = createAgentTurn({
      tools: createToolRunner({ tools: [tool('hangs', () => 'not this time'), read] }),
      history: saved,
      model: says([], ['end']),
    });
    await whole(second.resume());
    expect(second.history().map(word)).toEqual([
      '? go',
      '!  @call_hangs @call_read',
      'call_hangs=not this time',
      'call_read=read 1',
      '! end',
    ]);
    first.close();
  });

  it('that is broken is a failure of the turn, when a function gives it', async () => {
    const turns = createAgentTurn({ history: () => [{ role: 'user', content: '' }], model: says(['x']) });
    expect((await whole(turns.ask('go'))).map(line)).toEqual(['0 failed FlowConfigError']);
  });
});

describe('guesses', () => {
  const model = says([calls('read', { q: 'x' })], ['end']);
  const held = (options: Partial<AgentTurnOptions> = {}): AgentTurnOptions => ({
    tools: createToolRunner({ tools: [read] }),
    speculate: { tools: ['read'], ttlMs: 50, maxQueued: 2 },
    model,
    ...options,
  });

  it('are for tools that were named and only read, while there is something to be asked', () => {
    lived({ ...held(), tools: createToolRunner({ tools: [read, slow] }) }, (turns) => {
      expect(turns.speculate({ name: 'slow', input: 1 })).toBe(false);
      expect(turns.speculate({ name: 'none', input: 1 })).toBe(false);
      for (const none of [null, undefined, 5, 'read', [], {}, { name: null }]) expect(turns.speculate(none as never)).toBe(false);
      expect(turns.speculate({ name: 'read', input: 1n })).toBe(false);
      expect(turns.speculate({ name: 'read', input: 1 })).toBe(true);
      turns.close();
      expect(turns.speculate({ name: 'read', input: 2 })).toBe(false);
      expect(turns.snapshot().guesses).toBe(0);
    });
    lived({ model }, (turns) => {
      expect(turns.speculate({ name: 'read', input: 1 })).toBe(false);
    });
  });

  it('that come true are not called again; the same guess twice, one with another context, and one that failed', () => {
    const made: unknown[] = [];
    const run = (guess: (turns: ReturnType<typeof createAgentTurn>) => void): number => {
      made.length = 0;
      const tools = [tool('read', (input) => after(5, made.push(input) > 0), { readOnly: true })];
      lived({ ...held(), tools: createToolRunner({ tools }) }, (turns, { ask }) => {
        guess(turns);
        ask('go');
      });
      return made.length;
    };
    const x = { name: 'read', input: { q: 'x' } };
    expect(run((turns) => turns.speculate(x))).toBe(1);
    expect(
      run((turns) => {
        turns.speculate(x);
        turns.speculate(x);
      }),
    ).toBe(1);
    expect(run((turns) => turns.speculate(x, { context: 'other' }))).toBe(2);
    expect(run((turns) => turns.speculate(x, { key: 'other' }))).toBe(2);
    expect(run((turns) => turns.speculate({ name: 'read', input: { q: 'y' } }))).toBe(2);
    let attempts = 0;
    const flaky = tool(
      'read',
      () =>
        attempts++ === 0
          ? after(5, '').pipe(
              map(() => {
                throw new Error('first');
              }),
            )
          : of('second'),
      { readOnly: true, retry: false },
    );
    const { events } = lived({ ...held(), tools: createToolRunner({ tools: [flaky] }) }, (turns, { ask }) => {
      turns.speculate(x);
      ask('go');
    });
    expect(events).toContain('5: 1 toolResult call_read: second');
  });

  it('are aborted when they are too many, too old, or not asked for', () => {
    const aborted: unknown[] = [];
    const hanging = tool(
      'read',
      (input, { signal }) => {
        signal.addEventListener('abort', () => aborted.push(input));
        return NEVER;
      },
      { readOnly: true },
    );
    lived({ ...held(), tools: createToolRunner({ tools: [hanging] }), model: says(['no tool']) }, (turns, { ask, advance }) => {
      for (const input of [1, 2, 3]) turns.speculate({ name: 'read', input });
      expect(aborted).toEqual([1]);
      ask('go');
      expect(aborted).toEqual([1, 2, 3]);
      turns.speculate({ name: 'read', input: 4 });
      advance(30);
      turns.speculate({ name: 'read', input: 4 });
      advance(30);
      expect(aborted).toEqual([1, 2, 3]);
      advance(30);
      expect(aborted).toEqual([1, 2, 3, 4]);
      turns.speculate({ name: 'read', input: 5 });
      turns.stop('default');
      expect(aborted).toEqual([1, 2, 3, 4, 5]);
    });
  });

  it('for the next question outlive the turn they are made in', () => {
    const made: unknown[] = [];
    const { events } = lived(
      {
        ...held(),
        tools: createToolRunner({ tools: [tool('read', (input) => after(1, made.push(input)), { readOnly: true })] }),
        model: (messages) =>
          word(messages.at(-1) as TurnMessage) === '? first'
            ? after(5, 'hm')
            : model(messages, { step: messages.length > 3 ? 2 : 1 } as never),
      },
      (turns, { ask, advance }) => {
        ask('first');
        advance(2);
        turns.speculate({ name: 'read', input: { q: 'x' } });
        advance(4);
        expect(turns.snapshot().guesses).toBe(1);
        ask('second');
      },
    );
    expect(made).toHaveLength(1);
    expect(events).toContain('6: 1 toolResult call_read: 1');
  });

  it('wait for a person like any other call, and are refused like any other', () => {
    const { events } = lived(held({ needsApproval: () => true }), (turns, { ask, advance }) => {
      turns.speculate({ name: 'read', input: { q: 'x' } });
      ask('go');
      advance(5);
      turns.answer('call_read', false);
    });
    expect(events).toContain('5: 1 toolResult call_read: permission_denied');
  });
});
