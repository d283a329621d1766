import type { ChatCallerOptions } from '../../pipelines/create-model-caller.js';
import type { Config } from './schema.js';

const NAMES = ['baseUrl', 'model', 'headers', 'timeoutMs', 'deadlineMs', 'retry'] as const;

/** What of a configured model is an option of `createModelCaller`. */
export type ConfiguredCaller = Partial<Pick<ChatCallerOptions, (typeof NAMES)[number]>>;

/**
 * What `model` of a configuration says to `createModelCaller`, to spread into its options. The rest of it (`system`, `temperature`, `maxTokens`,
 * `options`) goes into requests, and `apiKeyEnv` names a variable.
 *
 * @example
 * ```ts
 * import { modelCallerOptions } from 'sluice/edge';
 *
 * modelCallerOptions({ model: 'small', temperature: 0, deadlineMs: 30_000 }); // => { model: 'small', deadlineMs: 30_000 }
 * ```
 */
export function modelCallerOptions(model: Config['model'] = {}): ConfiguredCaller {
  return Object.fromEntries(NAMES.flatMap((name) => (model[name] === undefined ? [] : [[name, model[name]]])));
}
