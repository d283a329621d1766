import type { BudgetExceededError } from '../../../operators/index.js';
import { isFlowError } from '../../../operators/index.js';
import type { StageItem } from '../../pipelines/stages/stages-types.js';
import { CliError, EXIT, exitCodeOf } from '../exit.js';
import { explainFailure, type ProviderWords } from '../provider.js';
import { type Doubts, mayBeOfRow } from './run-doubts.js';
import type { RunPlan } from './run-plan.js';
import type { RunDocument } from './run-stages.js';

/** A model that has let so many calls down, and has answered none, will let down all others. */
const MOST_UNANSWERED = 10;

/** Why a run ends because of a call: nothing more may be spent, or all other calls would fail as well. */
export type RunFault =
  | { readonly kind: 'spent'; readonly refusal: BudgetExceededError }
  | { readonly kind: 'failed'; readonly error: unknown };

/** What the failure of a call that is not made again means for the run; undefined when it is the failure of its item alone. */
export function faultOf(
  { shown, config }: RunPlan,
  doubts: Doubts,
  { document, documentId }: StageItem<RunDocument>,
  model: string,
  error: unknown,
): RunFault | undefined {
  if (isFlowError(error, 'FLOW_BUDGET_EXCEEDED')) return { kind: 'spent', refusal: error };
  if (exitCodeOf(error) !== undefined) return { kind: 'failed', error };
  const words: ProviderWords = {
    keys: config.model?.apiKeyEnv ?? 'SLUICE_API_KEY or OPENAI_API_KEY',
    options: '`model` in the configuration',
    address: `the name of the model, \`${model}\`, and \`model.baseUrl\`, ${shown.address}`,
    start: 'is the server running, and `model.baseUrl` its address?',
  };
  const failure = explainFailure(error, { shown, model }, words);
  const isOfAll = failure.kind === 'stop' && !mayBeOfRow(error);
  if (!isOfAll) {
    if (failure.kind === 'poisoned' || document.hasFailed) return undefined;
    if (doubts.gaveUp(model, documentId) < MOST_UNANSWERED) return undefined;
  }
  if (failure.kind === 'stop') return { kind: 'failed', error: failure.error };
  const sentence = `${shown.address} has answered nothing of use with \`${model}\` so far: ${failure.reason}. Check ${words.options}`;
  return { kind: 'failed', error: new CliError(EXIT.provider, sentence, error) };
}
