import { Command } from 'commander';
import { onDisk } from '../journal/file-error.js';
import { loadConfig } from './config-file.js';
import { CliError, EXIT } from './exit.js';
import { type Host, pathOf } from './host.js';
import { onInterrupt } from './interrupt.js';
import { positiveNumber, wholeNumber } from './options.js';
import { refuseForeignFile, writeOwnFile } from './own-file.js';
import { showProgress } from './progress.js';
import { dryRun, dryRunText } from './run/dry-run.js';
import { faultOf, filesOf } from './run/run-files.js';
import { RunJob } from './run/run-job.js';
import { planRun, type RunPlan, refusalOf } from './run/run-plan.js';
import { type RunSummary, runSummaryText } from './run/run-summary.js';
import { runViewLine, runViewText } from './run/run-view.js';
import { visible } from './visible.js';

interface RunFlags {
  readonly dryRun: boolean;
  readonly limit?: number;
  readonly maxUsd?: number;
  readonly retryFailed: boolean;
  readonly events?: string;
  /** True for standard output, else a path. */
  readonly json?: string | true;
}

/** How every summary begins. */
const SUMMARY_MARK = '{\n  "exitCode": ';

export function runCommand(host: Host): Command {
  return new Command('run')
    .description('take the rows of a file, or the documents of a folder, through the prompts of a configuration')
    .argument('<config>', 'YAML or JSON: model, stages, limits, input, output')
    .option('--dry-run', 'send nothing: say how many calls and tokens it would take, how long, and what it would cost', false)
    .option('--limit <n>', 'take up at most so many rows, and end', wholeNumber(1))
    .option(
      '--max-usd <n>',
      'stop before more is spent, with all that earlier runs on this output have spent; needs `prices`',
      positiveNumber,
    )
    .option('--retry-failed', 'take up again the rows that failed', false)
    .option('--events <file>', 'write what happens, for `sluice inspect`')
    .option('--json [file]', 'the summary as JSON, to a file or to standard output')
    .action((file: string, flags: RunFlags) => run(file, flags, host));
}

async function run(file: string, flags: RunFlags, host: Host): Promise<void> {
  const { value, secrets } = await loadConfig(file, host);
  const own = [flags.events, flags.json].filter((path) => typeof path === 'string');
  const plan = planRun(value, file, host, own, secrets);
  // Before anything is read or sent: at the end it would be too late.
  const fault = refusalOf(value, flags.maxUsd) ?? (await faultOf(filesOf(value, file, host, flags)));
  if (fault !== undefined) throw new CliError(EXIT.usage, fault.message);
  if (typeof flags.json === 'string') await refuseForeignFile(pathOf(host, flags.json), flags.json, SUMMARY_MARK, 'a summary');
  if (flags.dryRun) {
    const estimate = await dryRun(plan, { limit: flags.limit ?? Infinity, retryFailed: flags.retryFailed });
    await report(dryRunText(estimate), estimate, flags.json, host);
    return;
  }
  const summary = await runJob(plan, flags, host);
  await report(runSummaryText(summary), summary, flags.json, host);
  host.exitCode = summary.exitCode;
}

async function runJob(plan: RunPlan, { limit = Infinity, maxUsd, retryFailed, events }: RunFlags, host: Host): Promise<RunSummary> {
  const signals = onInterrupt(host, () => {
    display.note('stopping: waiting for the calls under way (interrupt again to abort them)');
  });
  const job = new RunJob(
    { plan, limit, maxUsd, retryFailed, events: events === undefined ? undefined : { path: pathOf(host, events), shown: events } },
    signals,
  );
  const display = showProgress(host, {
    live: (columns, colour) => runViewText(job.view(), { columns, colour }),
    line: () => runViewLine(job.view()),
  });
  try {
    return await job.run();
  } finally {
    display.stop();
    signals.dispose();
  }
}

/** Standard output stays pure JSON when it is asked for it. */
async function report(text: string, summary: object, json: string | true | undefined, host: Host): Promise<void> {
  const lines = visible(`${JSON.stringify(summary, undefined, 2)}\n`);
  (json === true ? host.stderr : host.stdout).write(`${text}\n`);
  if (json === true) host.stdout.write(lines);
  else if (json !== undefined) await onDisk(`write the summary \`${json}\``, () => writeOwnFile(pathOf(host, json), lines));
}
