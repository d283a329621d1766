import { Command } from 'commander';
import { stringify } from 'yaml';
import { configJsonSchema } from '../edge/config/json-schema.js';
import { planOf, type StatedLoad } from '../edge/config/plan.js';
import { presets } from '../pipelines/presets.js';
import { explainThroughput } from '../pipelines/throughput.js';
import { loadConfig, readConfig } from './config-file.js';
import { CliError, EXIT } from './exit.js';
import { explainText } from './explain-text.js';
import { positiveNumber, wholeNumber } from './options.js';

export function configCommand(): Command {
  const command = new Command('config').description('check a configuration, and tell what bounds its throughput');
  const settled = (sub: Command): Command => sub.copyInheritedSettings(command);
  command.addCommand(
    settled(
      new Command('check')
        .description('say everything that is wrong with a configuration')
        .argument('<file>', 'YAML, or JSON when its name ends so')
        .option('--json', 'what is wrong as JSON', false)
        .action(check),
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
        .action(explain),
    ),
  );
  command.addCommand(
    settled(
      new Command('preset')
        .description('print a configuration to begin with')
        .argument('[name]', 'without it the names')
        .action(printPreset),
    ),
  );
  command.addCommand(
    settled(
      new Command('schema').description('print the JSON Schema, for editors').action(() => {
        print(JSON.stringify(configJsonSchema(), undefined, 2));
      }),
    ),
  );
  return command;
}

async function check(file: string, { json }: { readonly json: boolean }): Promise<void> {
  const parsed = await readConfig(file);
  const problems = 'problems' in parsed ? parsed.problems : [];
  if (json) print(JSON.stringify({ file, problems }, undefined, 2));
  else if (problems.length === 0) print(`${file}: nothing is wrong`);
  else print(problems.map(({ message }) => `${file}: ${message}`).join('\n'));
  if (problems.length > 0) process.exitCode = EXIT.usage;
}

async function explain(file: string, { json, ...stated }: StatedLoad & { readonly json: boolean }): Promise<void> {
  const { plan, assumed } = planOf(await loadConfig(file), stated);
  const explained = explainThroughput(plan);
  print(json ? JSON.stringify({ ...explained, plan, assumed }, undefined, 2) : explainText(plan, assumed, explained));
}

function printPreset(name: string | undefined): void {
  const all = configPresets();
  if (name === undefined) {
    print([...all.keys()].join('\n'));
    return;
  }
  const preset = all.get(name);
  if (preset === undefined) throw new CliError(EXIT.usage, `there is no preset \`${name}\`; there are ${[...all.keys()].join(', ')}`);
  print(stringify(preset, { aliasDuplicateObjects: false }).trimEnd());
}

/** Presets that are whole configurations, by their names: `paper.production`. */
function configPresets(): ReadonlyMap<string, object> {
  const { chat, llmProperties, paper } = presets;
  const of = (group: string, situations: Readonly<Record<string, object>>): [string, object][] =>
    Object.entries(situations).map(([name, preset]) => [`${group}.${name}`, preset]);
  return new Map([['chat', chat], ...of('llmProperties', llmProperties), ...of('paper', paper)]);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
