import type { Observable } from 'rxjs';
import { concatMap } from 'rxjs';
import type { Settled } from '../../../../operators/index.js';
import { createBatcher, createLimiter, lanes, natural, perMinute, retryFailed, switchLatest } from '../../../../operators/index.js';
import { createToolRunner } from '../../../../src/index.js';
import type { Item, Setting } from '../setting.js';
import { LANES } from '../setting.js';

/**
 * A question is a turn: the model asks for a search, reads it and answers. A newer question ends the turn, whatever of it is under way.
 * `createAgentTurn` makes such turns of any model and tools, and keeps the conversation.
 */
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
  const ask = (item: Item): Observable<Item> => model.load(item, { lane: item.lane });
  const look = (item: Item) => runner.run([{ id: 'call_1', name: 'search', input: 'otters' }], { context: item });
  return items.pipe(
    switchLatest(
      (item) =>
        ask(item).pipe(
          concatMap(() => look(item)),
          concatMap(() => ask(item)),
        ),
      { errors: 'settle', scheduler },
    ),
  );
}
