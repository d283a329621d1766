import type { Observable } from 'rxjs';
import { filter, map, mergeMap } from 'rxjs';
import type { Settled } from '../../../../operators/index.js';
import { createBatcher, createLimiter, lanes, natural, perMinute, retryFailed } from '../../../../operators/index.js';
import type { TurnEvent } from '../../../../src/index.js';
import { createAgentTurn, createToolRunner } from '../../../../src/index.js';
import type { Item, Setting } from '../setting.js';
import { LANES } from '../setting.js';

/** A question is a turn: the model asks for a search, reads it and answers. A newer question ends the turn, whatever of it is under way. */
export function flow({ scenario, items, call, scheduler, random, onEvent }: Setting): Observable<Settled<Item, Item>> {
  const { concurrency, requestsPerMinute, tokensPerMinute } = scenario;
  const queue = lanes(LANES.map((name) => ({ name })));
  const rates = [perMinute('requests', requestsPerMinute), perMinute('tokens', tokensPerMinute)];
  const account = createLimiter({ concurrency, rates, queue, scheduler, random, onEvent, name: 'account' });
  const model = createBatcher(call, {
    name: 'model',
    limiter: account,
    maxSize: 1,
    weigh: (item) => item.tokens,
    window: natural(),
    queue,
    repair: retryFailed(),
    scheduler,
    random,
    onEvent,
  });
  const search = {
    name: 'search',
    description: 'Looks something up.',
    // Any Standard Schema will do, one of zod for example.
    parameters: { '~standard': { validate: (value: unknown) => ({ value }) } },
    readOnly: true,
    // It is no model: it costs no tokens to speak of.
    execute: (_query: unknown, { signal, context }: { signal: AbortSignal; context: Item }) =>
      call([{ ...context, tokens: 1 }], { signal }),
  };
  const runner = createToolRunner<Item>({ tools: [search], scheduler, random, onEvent });
  const turns = createAgentTurn<string, Item>({
    model: (_messages, { step, context }) =>
      model
        .load(context, { lane: context.lane })
        .pipe(
          map(() => (step === 1 ? { type: 'toolCall', call: { id: 'call_1', name: 'search', input: 'otters' } } : 'Otters hold hands.')),
        ),
    tools: runner,
    scheduler,
  });
  const settled = (item: Item, event: TurnEvent): Settled<Item, Item> | undefined => {
    const about = { input: item, index: item.index, id: String(item.index), attempts: 1 };
    if (event.type === 'finished') return { ...about, status: 'fulfilled', value: item };
    return event.type === 'failed' ? { ...about, status: 'rejected', reason: event.error } : undefined;
  };
  return items.pipe(
    mergeMap((item) => turns.ask('What do otters do?', { context: item }).pipe(map((event) => settled(item, event)))),
    filter((result) => result !== undefined),
  );
}
