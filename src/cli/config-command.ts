import { Command } from 'commander';
import { stringify } from 'yaml';
import { check } from '../../operators/build.js';
import { configJsonSchema } from '../edge/config/json-schema.js';
import type { ConfigNotice } from '../edge/config/parse.js';
import { planOf, type StatedLoad } from '../edge/config/plan.js';
import type { ConfigProblem } from '../edge/config/problems.js';
import type { Config } from '../edge/config/schema.js';
import { spelledIn } from '../edge/config/spelling.js';
import { presets } from '../pipelines/presets.js';
import { explainThroughput } from '../pipelines/throughput.js';
import { type LoadedConfig, loadConfig, readConfig } from './config-file.js';
import { CliError, EXIT } from './exit.js';
import { adviceOn } from './explain-advice.js';
import { explainText } from './explain-text.js';
import type { Host } from './host.js';
import { positiveNumber, wholeNumber } from './options.js';
import { busyNotice, checkRun, isOfRun, stateProblems } from './run/check-run.js';
import { refusalsOf } from './run/run-plan.js';
import { visibleName } from './visible.js';

interface CheckFlags {
  readonly json: boolean;
}

type ExplainFlags = StatedLoad & CheckFlags;

export function configCommand(host: Host): Command {
  const command = new Command('config').description('check a configuration, and tell what bounds its throughput');
  const settled = (sub: Command): Command => sub.copyInheritedSettings(command);
  command.addCommand(
    settled(
      new Command('check')
        .description('say everything that is wrong with a configuration')
        .argument('<file>', 'YAML, or JSON when its name ends so')
        .option('--json', 'what is wrong as JSON', false)
        .action((file: string, flags: CheckFlags) => checkFile(file, flags, host)),
    ),
  );
  command.addCommand(
    settled(
      new Command('explain')
        .description('the limits of a configuration, what each of them bounds, and what to raise')
        .argument('<file>', 'YAML, or JSON when its name ends so')
        .option('--documents <n>', 'documents in all', wholeNumber(0))
        .option('--items-per-document <n>', 'items that are made of a document', positiveNumber)
        .option('--seconds-per-call <n>', 'how long a call takes', positiveNumber)
        .option('--prompt-tokens <n>', 'tokens that a call sends', wholeNumber(0))
        .option('--completion-tokens <n>', 'tokens that a call answers', wholeNumber(0))
        .option('--json', 'the same as JSON', false)
        .action((file: string, flags: ExplainFlags) => explain(file, flags, host)),
    ),
  );
  command.addCommand(
    settled(
      new Command('preset')
        .description('print a configuration to begin with')
        .argument('[name]', 'without it the names')
        .action((name: string | undefined) => {
          printPreset(name, host);
        }),
    ),
  );
  command.addCommand(
    settled(
      new Command('schema').description('print the JSON Schema, for editors').action(() => {
        print(host, JSON.stringify(configJsonSchema(), undefined, 2));
      }),
    ),
  );
  return command;
}

async function checkFile(file: string, { json }: CheckFlags, host: Host): Promise<void> {
  const parsed = await readConfig(file, host);
  const { problems, notices } = 'problems' in parsed ? { ...parsed, notices: [] } : await checkLoaded(parsed, file, host);
  const noted = notices.map(({ message }) => `${file}: note: ${visibleName(message)}`);
  if (json) print(host, JSON.stringify({ file, problems, notices }, undefined, 2));
  else if (problems.length === 0)
    print(host, [...noted, `${file}: nothing is wrong${'value' in parsed ? hintOf(parsed.value) : ''}`].join('\n'));
  else print(host, problems.map(({ message }) => `${file}: ${visibleName(message)}`).join('\n'));
  if (problems.length > 0) host.exitCode = EXIT.usage;
}

/** Prompts may be for code, too. */
function hintOf(config: Config): string {
  const isAsking = config.stages?.some(({ prompt }) => prompt !== undefined) ?? false;
  return isAsking && !isOfRun(config) ? '; `sluice run` needs `input.path` and `output.path` as well' : '';
}

/** What `sluice run` would find before it sends anything. */
async function checkLoaded(
  loaded: LoadedConfig,
  file: string,
  host: Host,
): Promise<{ readonly problems: readonly ConfigProblem[]; readonly notices: readonly ConfigNotice[] }> {
  const { value, notices } = loaded;
  if (!isOfRun(value)) return { problems: refusalsOf(value), notices };
  const checked = await checkRun(loaded, file, host);
  if ('problems' in checked) return { problems: checked.problems, notices };
  const busy = await busyNotice(checked.plan);
  const all = [...notices, ...checked.notices, ...(busy === undefined ? [] : [busy])];
  // What stands beside the output changes while a run is going on.
  return { problems: busy === undefined ? await stateProblems(checked.plan) : [], notices: all };
}

async function explain(path: string, { json, ...stated }: ExplainFlags, host: Host): Promise<void> {
  const { value, file, notices } = await loadConfig(path, host);
  const { plan, assumed } = planOf(value, stated);
  const throughput = explainThroughput(plan);
  const spelled = spelledIn(file);
  const advice = adviceOn(value, plan, throughput, spelled);
  if (json) print(host, JSON.stringify({ ...throughput, plan, assumed, advice, notices }, undefined, 2));
  else
    print(
      host,
      [explainText({ plan, assumed, throughput, advice, spelled }), ...notices.map(({ message }) => `note: ${visibleName(message)}`)].join(
        '\n',
      ),
    );
}

function printPreset(name: string | undefined, host: Host): void {
  const all = configPresets();
  if (name === undefined) {
    print(host, [...all.keys()].join('\n'));
    return;
  }
  const preset = all.get(name);
  if (preset === undefined) throw new CliError(EXIT.usage, unknownPreset(name, [...all.keys()]));
  print(host, stringify(preset, { aliasDuplicateObjects: false }).trimEnd());
}

function unknownPreset(name: string, known: readonly string[]): string {
  const meant = check.nearest(name, known);
  return `unknown preset \`${name}\`. ${meant === undefined ? `Known presets: ${known.join(', ')}.` : `Did you mean \`${meant}\`?`}`;
}

/** Presets that are whole configurations, by their names: `paper.production`. */
function configPresets(): ReadonlyMap<string, object> {
  const { chat, llmProperties, paper } = presets;
  const of = (group: string, situations: Readonly<Record<string, object>>): [string, object][] =>
    Object.entries(situations).map(([name, preset]) => [`${group}.${name}`, preset]);
  return new Map([['chat', chat], ...of('llmProperties', llmProperties), ...of('paper', paper)]);
}

function print(host: Host, text: string): void {
  host.stdout.write(`${text}\n`);
}
