// Which page stands where. `test/site/site.test.ts` holds that each page of `docs/` is here once.

export interface Section {
  readonly text: string;
  readonly items: readonly { readonly text: string; readonly link: string }[];
}

const page = (text: string, link: string) => ({ text, link: `/${link}` });

export const learn: readonly Section[] = [
  {
    text: 'Begin',
    items: [
      page('First steps', 'guides/first-steps'),
      page('Choosing an operator', 'guides/choosing'),
      page('Reading a drawing', 'guides/reading-a-drawing'),
      page('All pages', 'contents'),
    ],
  },
  {
    text: 'Understand',
    items: [
      page('Cancellation', 'guides/cancellation'),
      page('Ordering', 'guides/ordering'),
      page('Shutdown', 'shutdown'),
      page('What providers count', 'providers'),
      page('How tokens are estimated', 'tokens'),
      page('Traps', 'traps'),
      page('Glossary', 'glossary'),
    ],
  },
  {
    text: 'Test',
    items: [page('Testing with marbles', 'guides/testing-with-marbles'), page('The testing kit', 'testing')],
  },
  {
    text: 'Watch',
    items: [page('Metrics', 'guides/metrics'), page('The inspector', 'inspector'), page('TanStack Devtools', 'devtools'), page('Playground', 'playground')],
  },
  {
    text: 'In the page',
    items: [page('Frontends', 'frontends'), page('React', 'react')],
  },
  {
    text: 'Coming from',
    items: [
      page('bufferTime and mergeMap', 'guides/migrating-from-buffer-time'),
      page('p-queue', 'guides/migrating-from-p-queue'),
      page('Bottleneck', 'guides/migrating-from-bottleneck'),
      page('DataLoader', 'guides/migrating-from-dataloader'),
      page('RxJS', 'rxjs-parity'),
    ],
  },
];

export const recipes: readonly Section[] = [
  {
    text: 'Problems',
    items: [
      page('My user waits behind the index', 'recipes/user-behind-the-index'),
      page('429 storm', 'recipes/429-storm'),
      page('I pay for answers that are thrown away', 'recipes/discarded-answers'),
      page('One bad row fails the batch', 'recipes/one-bad-row'),
      page('Documents → chunks → requests', 'recipes/documents-to-requests'),
      page('Tools in parallel', 'recipes/tools-in-parallel'),
      page('Many processes on one key', 'recipes/many-processes-one-key'),
    ],
  },
  {
    text: 'Whole programs',
    items: [
      page('Tool calls: out of an answer, and back', 'guides/tool-calls'),
      page('Events of the Responses API', 'guides/responses-events'),
      page('Events of LangGraph', 'guides/langgraph-events'),
      page('Bulk work', 'guides/bulk-work'),
      page('A durable queue', 'guides/durable-queue'),
      page('One key, many processes', 'guides/many-processes'),
      page('Write your own pipeline', 'guides/own-pipeline'),
    ],
  },
];

export const reference: readonly Section[] = [
  {
    text: 'Operators',
    items: [
      ...['batchMap', 'batchMapFrom', 'createBatcher', 'bulkheadMap', 'batch', 'mergeLanes', 'createIntake', 'createLimiter', 'adaptiveLimit', 'rateLimit'],
      ...['policy', 'createBreaker', 'hedge', 'speculate', 'switchLatest', 'settleAll', 'unwrap', 'classifyError', 'backpressure', 'conflateWhileBusy'],
      ...['coalesce', 'resequence', 'toStore', 'toAsyncIterable', 'toReadableStream', 'toNative', 'fromNative', 'fromStream', 'fromSubscribable'],
    ].map((name) => page(name, `operators/${kebab(name)}`)),
  },
  {
    text: 'Pipelines',
    items: ['createModelCaller', 'createToolRunner', 'createAgentTurn', 'createEmbedder', 'createStages', 'createBudget'].map((name) =>
      page(name, `pipelines/${kebab(name)}`),
    ),
  },
  {
    text: 'Adapters',
    items: [
      page('All adapters', 'adapters/index'),
      ...['fetch', 'openai', 'anthropic', 'ai-sdk', 'langchain', 'openai-agents', 'mcp', 'ag-ui', 'tanstack-ai', 'otel'].map((name) =>
        page(`sluice/${name}`, `adapters/${name}`),
      ),
    ],
  },
  {
    text: 'Command',
    items: [page('sluice run', 'sluice-run'), page('Configuration', 'config'), page('sluice inspect', 'sluice-inspect')],
  },
  {
    text: 'Lists',
    items: [page('Errors by code', 'errors'), page('Options by name', 'options'), page('Values', 'values')],
  },
];

export const inside: readonly Section[] = [
  {
    text: 'Inside',
    items: [
      page('Architecture', 'architecture'),
      page('Composition', 'composition'),
      page('Decisions', 'decisions/index'),
      page('Behaviour', 'behaviour'),
      page('Benchmarks', 'benchmarks'),
      page('Bundle sizes', 'sizes'),
      page('Mutation tests', 'mutation'),
      page('Exercises', 'exercises'),
      page('First use', 'first-use'),
      page('Changes', 'site/changelog'),
      page('Security', 'site/security'),
    ],
  },
];

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
