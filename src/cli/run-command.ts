import { Command } from 'commander';
import { onDisk } from '../journal/file-error.js';
import { loadConfig } from './config-file.js';
import { CliError, EXIT, exitCodeOf } from './exit.js';
import { wrapped } from './format.js';
import { type Host, pathOf } from './host.js';
import { onInterrupt } from './interrupt.js';
import { positiveNumber, wholeNumber } from './options.js';
import { writeOwnFile } from './own-file.js';
import { showProgress } from './progress.js';
import { checkRun, problemsText } from './run/check-run.js';
import { dryRun, dryRunText } from './run/dry-run.js';
import { RunJob } from './run/run-job.js';
import type { RunPlan } from './run/run-plan.js';
import { runSummaryText } from './run/run-summary.js';
import { runViewLine, runViewText } from './run/run-view.js';
import { visible, visibleName } from './visible.js';

interface RunFlags {
  readonly dryRun: boolean;
  readonly limit?: number;
  readonly maxUsd?: number;
  readonly retryFailed: boolean;
  readonly events?: string;
  /** True for standard output, else a path. */
  readonly json?: string | true;
}

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
  const loaded = await loadConfig(file, host);
  const checked = await checkRun(loaded, file, host, flags);
  if ('problems' in checked) throw new CliError(EXIT.usage, problemsText(file, checked.problems));
  const { plan } = checked;
  for (const { message } of [...loaded.notices, ...checked.notices]) host.stderr.write(`note: ${visibleName(message)}\n`);
  if (flags.dryRun) {
    const { limit = Infinity, retryFailed, maxUsd } = flags;
    const estimate = await dryRun(plan, { limit, retryFailed, maxUsd });
    await report(dryRunText(estimate), estimate, flags.json, host);
    return;
  }
  await runJob(plan, flags, host);
}

async function runJob(plan: RunPlan, { limit = Infinity, maxUsd, retryFailed, events, json }: RunFlags, host: Host): Promise<void> {
  const signals = onInterrupt(host, () => {
    display.note('stopping: waiting for the calls under way (interrupt again to abort them)');
  });
  const job = new RunJob(
    { plan, limit, maxUsd, retryFailed, events: events === undefined ? undefined : { path: pathOf(host, events), shown: events } },
    signals,
  );
  const display = showProgress(host, {
    live: (columns, rows, colour) => runViewText(job.view(), { columns, rows, colour }),
    line: () => runViewLine(job.view()),
  });
  try {
    const summary = await job
      .run()
      .catch((error: unknown) => {
        throw withKept(error, job, host);
      })
      .finally(() => {
        display.stop();
      });
    await report(runSummaryText(summary), summary, json, host);
    host.exitCode = summary.exitCode;
  } finally {
    signals.dispose();
  }
}

/** An error that has ended a run, with what is kept of the run and how to continue it. */
function withKept(error: unknown, job: RunJob, { argv }: Host): unknown {
  const exitCode = exitCodeOf(error);
  const { kept } = job;
  if (exitCode === undefined || kept === undefined) return error;
  const command = ['sluice', ...argv.slice(2)].map(shellWord).join(' ');
  return new CliError(exitCode, `${(error as Error).message}\nkept: ${kept}. To continue, repair that and run \`${command}\` again`, error);
}

/** As a shell reads it. */
function shellWord(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Standard output stays pure JSON when it is asked for it. */
async function report(text: string, summary: object, json: string | true | undefined, host: Host): Promise<void> {
  const lines = visible(`${JSON.stringify(summary, undefined, 2)}\n`);
  const to = json === true ? host.stderr : host.stdout;
  const { isTTY = false, columns = Infinity } = to as Partial<NodeJS.WriteStream>;
  to.write(`${isTTY ? wrapped(text, columns) : text}\n`);
  if (json === true) host.stdout.write(lines);
  else if (json !== undefined) await onDisk(`write the summary \`${json}\``, () => writeOwnFile(pathOf(host, json), lines));
}
