import { createAccount, isFlowError } from '../../../operators/index.js';
import type { ConfigNotice } from '../../edge/config/parse.js';
import type { Config } from '../../edge/config/schema.js';
import { lockHolder } from '../../journal/lock.js';
import type { LoadedConfig } from '../config-file.js';
import { EXIT, exitCodeOf } from '../exit.js';
import type { Host } from '../host.js';
import { visibleName } from '../visible.js';
import { readCache } from './answer-cache.js';
import { firstRows, openRows } from './open-rows.js';
import { fieldPlaceholders, hiddenFields, unknownField, unknownFields } from './placeholders.js';
import { openBudget } from './run-budget.js';
import { faultOf, filesOf, type RunFileFlags, refuseForeign, shownCache } from './run-files.js';
import { RunJournal } from './run-journal.js';
import { checkOutput } from './run-output.js';
import { lacksOf, planRun, type RunPlan, refusalsOf } from './run-plan.js';
import { type RunProblem, runProblem } from './run-problem.js';

/** What the command line says of a run. */
export interface RunCheckFlags extends RunFileFlags {
  readonly maxUsd?: number;
}

/** What every check of a run answers: a plan that nothing is wrong with, and what its reader may not expect; or everything that is wrong. */
export type CheckedRun =
  | { readonly plan: RunPlan; readonly notices: readonly ConfigNotice[] }
  | { readonly problems: readonly RunProblem[] };

/** Whether a configuration is one of `sluice run`: those for code alone name no files. */
export function isOfRun({ input, output }: Config): boolean {
  return input !== undefined || output !== undefined;
}

/**
 * Looks for everything that can be known to be wrong with a run before anything is sent, and changes nothing: `sluice run`, its dry run and
 * `sluice config check` all ask here, and then for {@link readState}.
 */
export async function checkRun(
  { value, secrets }: LoadedConfig,
  file: string,
  host: Pick<Host, 'cwd' | 'env'>,
  flags: RunCheckFlags = {},
): Promise<CheckedRun> {
  const { events, json, maxUsd } = flags;
  const lacks = lacksOf(value, host.env);
  const problems = [...lacks, ...refusalsOf(value, maxUsd)];
  const files = filesOf(value, file, host, flags);
  const fault = await faultOf(files);
  if (fault !== undefined) problems.push(fault);
  else for (const one of files) problems.push(...(await problemsIn(one.option, () => refuseForeign(one))));
  let plan: RunPlan | undefined;
  if (lacks.length === 0) {
    const own = [events, json].filter((name) => typeof name === 'string');
    problems.push(...(await problemsIn('model', () => void (plan = planRun(value, file, host, own, secrets)))));
  }
  if (plan === undefined) return { problems };
  problems.push(
    ...(await problemsIn('limits', () => {
      createAccount({ ...value.limits }).close();
    })),
  );
  const notices: ConfigNotice[] = [];
  if (fault === undefined) problems.push(...(await inputProblems(plan, notices)));
  return problems.length > 0 ? { problems } : { plan, notices };
}

/** Everything that is wrong, for people. */
export function problemsText(file: string, problems: readonly RunProblem[]): string {
  const [first, ...others] = problems.map(({ message }) => visibleName(message));
  return others.length === 0 ? (first ?? '') : [`\`${file}\`:`, first, ...others].join('\n  ');
}

/**
 * Reads what earlier runs have left, and changes nothing.
 *
 * @throws CliError (exit code 2) when it belongs to something else, or does not belong together; 4 when it cannot be read.
 */
export async function readState(
  plan: RunPlan,
  { retryFailed, maxUsd }: { readonly retryFailed: boolean; readonly maxUsd?: number | undefined },
): Promise<RunJournal> {
  const { paths, shownOutput, work, stageKeys: stages } = plan;
  const journal = await RunJournal.read({ path: paths.journal, shown: `${shownOutput}.journal`, work, stages, retryFailed });
  await checkOutput(paths, shownOutput, journal);
  openBudget(plan, maxUsd);
  return journal;
}

/** Looks at the answers that are kept, which a run reads when it begins. @throws CliError as {@link readState} does */
export async function checkCache({ config, paths: { cache } }: RunPlan): Promise<void> {
  if (cache !== undefined) await readCache(cache, shownCache(config) ?? cache);
}

/** Both for a command that says everything that is wrong. */
export async function stateProblems(plan: RunPlan): Promise<RunProblem[]> {
  const inState = await problemsIn('output.path', () => readState(plan, { retryFailed: false }));
  return [...inState, ...(await problemsIn('model.cache.path', () => checkCache(plan)))];
}

/** Says that another run is writing the same output now; undefined when none is. */
export async function busyNotice({ paths, shownOutput }: RunPlan): Promise<ConfigNotice | undefined> {
  const holder = await lockHolder(paths.lock);
  return holder === undefined
    ? undefined
    : {
        path: 'output.path',
        message: `a run is going on: process ${holder} is writing \`${shownOutput}\`, and another run waits for its end`,
      };
}

async function inputProblems({ input, stages, config }: RunPlan, notices: ConfigNotice[]): Promise<RunProblem[]> {
  let problems: RunProblem[] = [];
  const unread = await problemsIn('input.path', async () => {
    await openRows(input);
    const first = await firstRows(input);
    problems = unknownFields(fieldPlaceholders(stages), first);
    if (input.id !== undefined) problems.push(...unknownField('input.id', input.id, first));
    const { priority } = config.batches ?? {};
    const unknown = priority === undefined ? [] : unknownField('batches.priority', priority, first);
    if (first.fields !== undefined) problems.push(...unknown);
    // A later row may have it: the others are those that are not urgent.
    else notices.push(...unknown.map(({ path, message }) => ({ path, message: `${message} Rows without it have the priority 0.` })));
    notices.push(...hiddenFields(stages, first));
  });
  return [...unread, ...problems];
}

async function problemsIn(path: string, look: () => unknown): Promise<RunProblem[]> {
  try {
    await look();
    return [];
  } catch (error) {
    if (exitCodeOf(error) !== EXIT.usage && !isFlowError(error, 'FLOW_CONFIG_INVALID')) throw error;
    const { message } = error as Error;
    return [runProblem(path, message, 'Correct it.', message)];
  }
}
