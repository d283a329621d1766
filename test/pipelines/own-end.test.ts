import { setTimeout as sleep } from 'node:timers/promises';
import { of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createAccount } from '../../src/account/create-account.js';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import type { AgentTurns } from '../../src/frontend/turn-types.js';
import { answerCache } from '../../src/index.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { AnyStage } from '../../src/pipelines/create-stages.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { ToolRunnerOptions } from '../../src/pipelines/tools/runner-types.js';
import type { Tool } from '../../src/pipelines/tools/tool-types.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { tool } from './tool-kit.js';

expectNoUnhandledRejections();

/** What the callback answers. The call it answers for has ended by then. */
type Answer = () => never;
/** Has the callback called. It ends what it is called for, and answers. */
type Case = (answer: Answer) => void;

const ignore = (promise: Promise<unknown>): void => {
  promise.catch(() => undefined);
};

/** The ways to end a turn of `createAgentTurn`. */
const turnEnds: Readonly<Record<string, (turns: AgentTurns) => void>> = {
  stop: (turns) => {
    turns.stop();
  },
  forget: (turns) => {
    turns.forget('default');
  },
  close: (turns) => {
    turns.close();
  },
  'ask again': (turns) => {
    turns.ask('newer').subscribe();
  },
};

const turnCases = Object.entries(turnEnds).map(([how, end]): [string, Case] => [
  `createAgentTurn, model, ${how}`,
  (answer) => {
    let isFirst = true;
    const turns: AgentTurns = createAgentTurn({
      model: () => {
        if (!isFirst) return of('fine');
        isFirst = false;
        end(turns);
        return answer();
      },
    });
    turns.ask('q').subscribe();
  },
]);

function runnerCase(rules: (answer: Answer) => Partial<ToolRunnerOptions>, ofTool?: (answer: Answer) => Partial<Tool>): Case {
  return (answer) => {
    const ending = () => {
      runner.close();
      return answer();
    };
    const one = tool('t', ofTool ? () => 1 : ending, ofTool?.(ending));
    const runner = createToolRunner({ tools: [one], ...rules(ending) });
    void runner.runAllAsync([{ id: 'a', name: 't', input: {} }]);
  };
}

type StoreMethod = 'get' | 'set' | 'delete';

function storeCase(method: StoreMethod): Case {
  return (answer) => {
    const ending = () => {
      models.close();
      return answer();
    };
    const store = { get: () => undefined, set: () => undefined, delete: () => undefined, [method]: ending };
    const models = createModelCaller({ call: () => Promise.resolve('a'), cache: answerCache({ key: (q: string) => q, storage: store }) });
    ignore(models.callAsync('q'));
    if (method === 'delete') models.forget('q');
  };
}

/** Not before `run` has returned. */
async function* later(): AsyncIterable<string> {
  await Promise.resolve();
  yield 'q';
}

function stagesCase(options: (answer: Answer) => object): Case {
  return (answer) => {
    const ending = () => {
      running.unsubscribe();
      return answer();
    };
    const { stages: list = [{ name: 's', work: () => 1 }], ...rest } = options(ending) as { readonly stages?: readonly AnyStage[] };
    const stages = createStages(list, rest);
    const running = stages.run(later() as never).subscribe({ error: () => undefined });
  };
}

const cases: readonly (readonly [string, Case])[] = [
  ...turnCases,
  [
    'createModelCaller, call',
    (answer) => {
      const models = createModelCaller({
        call: () => {
          models.close();
          return answer();
        },
      });
      ignore(models.callAsync('q'));
    },
  ],
  [
    'createModelCaller, stream',
    (answer) => {
      const leaving = new AbortController();
      const models = createModelCaller({
        call: {
          send: () => 1,
          stream: () => {
            leaving.abort();
            return answer();
          },
        },
      });
      models.stream('q', { signal: leaving.signal }).subscribe({ error: () => undefined });
    },
  ],
  ...(['get', 'set', 'delete'] as const).map((method) => [`createModelCaller, store.${method}`, storeCase(method)] as const),
  ['createToolRunner, execute', runnerCase(() => ({}))],
  ['createToolRunner, guard', runnerCase((ending) => ({ guard: ending }))],
  [
    'createToolRunner, schema',
    runnerCase(
      () => ({}),
      (ending) => ({ parameters: { '~standard': { validate: ending } } }),
    ),
  ],
  ['createStages, work', stagesCase((ending) => ({ stages: [{ name: 's', work: ending }] }))],
  ['createStages, steps', stagesCase((ending) => ({ stages: [{ name: 's', steps: ending }] }))],
  ['createStages, recall', stagesCase((ending) => ({ journal: { recall: ending, append: () => undefined } }))],
  ['createStages, append', stagesCase((ending) => ({ journal: { recall: () => [], append: ending } }))],
  ...[undefined, createBudget()].map(
    (budget) =>
      [
        `createEmbedder${budget ? ' with a budget' : ''}, call`,
        (answer: Answer) => {
          const embedder = createEmbedder({
            call: () => {
              embedder.close();
              return answer();
            },
            ...(budget && { limiter: createAccount({ budget }) }),
          });
          ignore(embedder.embedAsync('q'));
        },
      ] as const,
  ),
];

const answers: Readonly<Record<string, () => unknown>> = {
  'is rejected at once': () => Promise.reject(new Error('at once')),
  'is rejected later': () => sleep(1).then(() => Promise.reject(new Error('later'))),
  'is no real one, and answers nothing itself': () => ({
    then(_fulfilled: unknown, rejected?: (error: unknown) => void) {
      rejected?.(new Error('not real'));
    },
  }),
  'cannot be heard': () => ({
    then() {
      throw new Error('unheard');
    },
  }),
};

describe('a callback that ends what it is called for, and answers with a promise', () => {
  const rows = cases.flatMap(([name, run]) => Object.entries(answers).map(([how, answer]) => [name, how, run, answer] as const));

  it.each(rows)('leaves no unhandled rejection: %s, which %s', async (_name, _how, run, answer) => {
    let called = 0;
    run(() => {
      called++;
      return answer() as never;
    });
    await sleep(5);
    expect(called).toBe(1);
  });
});
