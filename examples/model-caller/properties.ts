// A request of several properties: for each of them a model writes parameters, all or nothing, while a report in the background asks the
// same model. Run by test/examples/model-caller.test.ts against a server on this machine.
import { firstValueFrom } from 'rxjs';
import type { ChatCompletion } from '../../src/index.js';
import { callAll, chatCompletions, createAccount, createModelCaller, presets } from '../../src/index.js';
import type { MetricsSnapshot } from '../../src/metrics/index.js';
import { createMetrics } from '../../src/metrics/index.js';
import type { LogFields } from '../../src/metrics/log-fields.js';
import { logFields } from '../../src/metrics/log-fields.js';

export interface Property {
  readonly type: 'metric' | 'operator';
  readonly question: string;
}

/** The model has answered, and not all that is needed is in the answer: asking again is of no use. */
export class MissingParamsError extends Error {
  constructor(readonly missing: readonly string[]) {
    super(`the model left out ${missing.join(', ')}`);
  }
}

const NO_ANSWERS = { defaultValue: {} as Readonly<Record<string, ChatCompletion>> };
const REQUIRED: Readonly<Record<Property['type'], readonly string[]>> = { metric: ['start', 'end'], operator: ['ids'] };

function prompt({ type, question }: Property) {
  const content = `Write the parameters ${REQUIRED[type].join(', ')} of the ${type} as one JSON object. Question: ${question}`;
  return { messages: [{ role: 'user', content }], max_completion_tokens: 200, temperature: 0 };
}

function paramsIn(answer: ChatCompletion, property: Property): Readonly<Record<string, unknown>> {
  const params = JSON.parse(answer.choices[0]?.message.content ?? '') as Record<string, unknown>;
  const missing = REQUIRED[property.type].filter((name) => !(name in params));
  if (missing.length > 0) throw new MissingParamsError(missing);
  return params;
}

/** What a program has of a model: made once, used by every request. */
export function startModels(baseUrl: string, log: (line: LogFields) => void) {
  const metrics = createMetrics();
  const models = createModelCaller({
    ...presets.modelCaller.production,
    call: chatCompletions({ baseUrl, model: 'small' }),
    onEvent: metrics.sink,
    onRecord: (record) => {
      metrics.record(record);
      log(logFields(record));
    },
    limiter: createAccount({ concurrency: 4, tokensPerMinute: 600_000 }),
  });
  metrics.observe('models', models);

  return {
    /** Resolves to all parameters, or rejects with the first failure. No call takes longer than 30 s, and leaving stops the model. */
    generateParams: async (properties: Readonly<Record<string, Property>>, signal?: AbortSignal) => {
      const requests = Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, prompt(property)]));
      const answers = await firstValueFrom(callAll(models, requests, { lane: 'user', ...(signal && { signal }) }), NO_ANSWERS);
      return Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [name, paramsIn(answers[name] as ChatCompletion, property)]),
      );
    },
    /** Background work that no user waits for: it takes the slots that are left. */
    summarize: (text: string) =>
      models.callAsync({ messages: [{ role: 'user', content: `Summarize: ${text}` }] }, { lane: 'background', name: 'summary' }),
    /** An answer as it is written. */
    explain: (question: string) =>
      models.stream({ messages: [{ role: 'user', content: question }] }, { lane: 'user', name: 'explanation' }),
    metrics: (): MetricsSnapshot => metrics.snapshot(),
    stop: () => models.drain({ timeoutMs: 5000 }),
  };
}
