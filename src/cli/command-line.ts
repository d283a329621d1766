import { Command, CommanderError } from 'commander';
import { isFlowError } from '../../operators/index.js';
import { configCommand } from './config-command.js';
import { EXIT, exitCodeOf } from './exit.js';
import { type Host, visibleHost } from './host.js';
import { inspectCommand } from './inspect-command.js';
import { ownPackage } from './package-root.js';
import { runCommand } from './run-command.js';

const EXIT_CODES = `
Exit codes:
  0    done
  1    done, but rows failed
  2    wrong options, unknown or unusable files
  3    provider or address not reachable, key refused, model unknown
  4    a file could not be written
  5    another run is writing the same file
  6    the budget is spent; \`sluice run\` goes on where it stopped when there is more
  130  interrupted; \`sluice run\` continues where it stopped when it is run again

Keys come from SLUICE_API_KEY or OPENAI_API_KEY.
`;

/**
 * Runs `sluice` as the host's arguments say, and leaves the exit code with the host. Never rejects: what goes wrong is told on standard error.
 *
 * @param inspectPage file with what the pages of `sluice inspect` run.
 */
export async function runCommandLine(process: Host, inspectPage: URL): Promise<void> {
  const host = visibleHost(process);
  const program = new Command('sluice')
    .description('Run documents through a model, explain what a configuration allows, look into pipelines.')
    .version(ownPackage().version)
    .addHelpText('after', EXIT_CODES)
    .showHelpAfterError('(run it with --help to see the options)');
  for (const command of [runCommand(host), inspectCommand(host, inspectPage), configCommand(host)])
    program.addCommand(command.copyInheritedSettings(program));
  for (const command of [program, ...program.commands.flatMap((one) => [one, ...one.commands])])
    command.exitOverride().configureOutput({
      writeOut: (text) => void host.stdout.write(text),
      writeErr: (text) => void host.stderr.write(text),
    });
  try {
    await program.parseAsync(host.argv);
  } catch (error) {
    host.exitCode = explain(error, host);
  }
}

/** Prints what went wrong, a sentence where it is known, and answers the exit code. */
function explain(error: unknown, { stderr }: Host): number {
  // Commander has printed its own message, or the help that was asked for.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  const exitCode = exitCodeOf(error);
  if (exitCode !== undefined) {
    stderr.write(`sluice: ${(error as Error).message}\n`);
    return exitCode;
  }
  if (isFlowError(error, 'FLOW_CONFIG_INVALID')) {
    stderr.write(`sluice: ${error.message}\n`);
    return EXIT.usage;
  }
  stderr.write(`sluice: unexpected error\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT.incomplete;
}
