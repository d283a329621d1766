import type { BaseEvent, RunAgentInput } from '@ag-ui/client';
import * as v1 from '@ag-ui/client';
import type { BaseEvent as BaseEvent0 } from 'ag-ui-client0';
import * as v0 from 'ag-ui-client0';
import type { Observable } from 'rxjs';
import { Subject } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import { createLimiter, switchLatest, toStore } from '../../operators/index.js';
import type { AguiEvent, AguiFlowEvent, AguiFlowOptions, AguiMiddleware } from '../../src/adapters/ag-ui.js';
import { aguiFlow, coalesceEvents, run$ } from '../../src/adapters/ag-ui.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createToolRunner } from '../../src/index.js';

declare const input: RunAgentInput;
declare const input0: Parameters<v0.HttpAgent['run']>[0];

/** Both clients have an RxJS of their own, nested, whose types are not those of the one here. */
describe('aguiFlow', () => {
  const limiter = createLimiter();
  const flow = aguiFlow({
    fetch: limitFetch({ limiter }),
    key: ({ threadId }) => threadId,
    coalesce: { pace: 'frame', maxChars: 100 },
    tools: createToolRunner({ tools: [] }),
    cancelledAs: 'error',
    onSupersede: ({ runId, reason }) => fetch(`https://host/stop/${runId}?${reason}`),
    limiter,
    job: ({ threadId }) => ({ lane: 'normal', key: threadId, cost: { tokens: 100 } }),
  });

  it('is what an agent of either version takes, as functions', () => {
    new v1.HttpAgent({ url: '', fetch: flow.fetch }).use(flow.coalesce, flow.switchRuns, flow.runTools);
    new v0.HttpAgent({ url: '', fetch: flow.fetch }).use(flow.coalesce, flow.switchRuns, flow.runTools);
    expectTypeOf(flow.coalesce).toEqualTypeOf<AguiMiddleware>();
    expectTypeOf(flow.coalesce).toExtend<v1.MiddlewareFunction>();
    expectTypeOf(flow.coalesce).toExtend<v0.MiddlewareFunction>();
    expectTypeOf(flow.events).toEqualTypeOf<Observable<AguiFlowEvent>>();
  });

  it('is what a middleware of ones own calls', () => {
    class Mine extends v1.Middleware {
      run(given: RunAgentInput, next: v1.AbstractAgent) {
        const events = flow.switchRuns(given, next);
        expectTypeOf(events).toEqualTypeOf<ReturnType<v1.AbstractAgent['run']>>();
        return this.runNext(given, next).pipe(coalesceEvents({ maxWaitMs: 10 }));
      }
    }
    new v1.HttpAgent({ url: '' }).use(new Mine(), (given, next) => next.run(given).pipe(coalesceEvents()));
    new v0.HttpAgent({ url: '' }).use((given, next) => next.run(given).pipe(coalesceEvents()));
  });

  it('refuses what it cannot use', () => {
    // @ts-expect-error -- not a word it knows
    aguiFlow({ cancelledAs: 'cancelled' });
    // @ts-expect-error -- a runner, not its tools
    aguiFlow({ tools: [] });
    // @ts-expect-error -- milliseconds are those of `coalesce`
    aguiFlow({ maxWaitMs: 16 });
    expectTypeOf<AguiFlowOptions['limiter']>().not.toEqualTypeOf<never>();
  });
});

describe('run$', () => {
  const agent = new v1.HttpAgent({ url: '' });

  it('is an Observable of ours, of the events of the agent', () => {
    expectTypeOf(run$(agent, input)).toEqualTypeOf<Observable<BaseEvent>>();
    expectTypeOf(run$(new v0.HttpAgent({ url: '' }), input0)).toEqualTypeOf<Observable<BaseEvent0>>();
    const own = { run: (_: { threadId: string; runId: string; more: number }) => new Subject<{ type: 'A' } | { type: 'B'; b: number }>() };
    expectTypeOf(run$(own, { threadId: '', runId: '', more: 1 })).toEqualTypeOf<Observable<{ type: 'A' } | { type: 'B'; b: number }>>();
    // @ts-expect-error -- the agent wants more
    void run$(own, { threadId: '', runId: '' });
  });

  it('goes through the operators, and into a store', () => {
    const questions = new Subject<string>();
    const events = questions.pipe(switchLatest((runId, { signal }) => run$(agent, { ...input, runId }, { signal }).pipe(coalesceEvents())));
    expectTypeOf(events).toEqualTypeOf<Observable<BaseEvent>>();
    expectTypeOf(toStore(events, undefined).getSnapshot()).toEqualTypeOf<BaseEvent | undefined>();
    const plain = new Subject<AguiEvent>();
    expectTypeOf(plain.pipe(coalesceEvents())).toEqualTypeOf<Observable<AguiEvent>>();
  });
});
