import type { ModelCallerRules } from '../../pipelines/create-model-caller.js';
import type { EndpointOptions } from '../../pipelines/endpoint.js';
import type { Config } from './schema.js';

const CALLER = ['timeoutMs', 'deadlineMs', 'retry'] as const;
const ENDPOINT = ['baseUrl', 'model', 'headers'] as const;

/**
 * What of a configured model is an option of `createModelCaller`.
 * @beta
 */
export type ConfiguredCaller = Partial<Pick<ModelCallerRules<unknown, unknown, unknown>, (typeof CALLER)[number]>>;

/**
 * What of a configured model is an option of `chatCompletions`.
 * @beta
 */
export type ConfiguredEndpoint = Partial<Pick<EndpointOptions, (typeof ENDPOINT)[number]>>;

/**
 * What `model` of a configuration says to `createModelCaller`, to spread into its options. Its address goes by {@link chatCompletionsOptions}; the rest
 * (`system`, `temperature`, `maxTokens`, `options`) goes into requests, and `apiKeyEnv` names a variable.
 *
 * @beta
 * @example
 * ```ts
 * import { modelCallerOptions } from 'sluice/edge';
 *
 * modelCallerOptions({ model: 'small', temperature: 0, deadlineMs: 30_000 }); // => { deadlineMs: 30_000 }
 * ```
 */
export function modelCallerOptions(model: Config['model'] = {}): ConfiguredCaller {
  return picked(model, CALLER);
}

/**
 * What `model` of a configuration says to `chatCompletions`, to spread into its options.
 *
 * @beta
 * @example
 * ```ts
 * import { chatCompletionsOptions } from 'sluice/edge';
 *
 * chatCompletionsOptions({ baseUrl: 'https://host/v1', model: 'small', deadlineMs: 30_000 }); // => { baseUrl: 'https://host/v1', model: 'small' }
 * ```
 */
export function chatCompletionsOptions(model: Config['model'] = {}): ConfiguredEndpoint {
  return picked(model, ENDPOINT);
}

function picked(model: NonNullable<Config['model']>, names: readonly (keyof NonNullable<Config['model']>)[]): object {
  return Object.fromEntries(names.flatMap((name) => (model[name] === undefined ? [] : [[name, model[name]]])));
}
