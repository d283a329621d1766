import type { Pipeline } from './preset.js';
import type { Scenario } from './setting.js';

/** What a file here imports, by what a project of yours calls it. */
const PACKAGES: readonly (readonly [ending: string, name: string])[] = [
  ['/operators/index.js', 'sluice/operators'],
  ['/marbles/index.js', 'sluice/marbles'],
  ['/src/index.js', 'sluice'],
];

const IMPORT = /^import (type )?\{([^}]*)\} from '([^']+)';\n/gm;

/** The pipeline of a scenario as one file of TypeScript: what the page runs, word for word. It prints the counts of the whole run. */
export async function copiedCode(title: string, scenario: Scenario, pipeline: Pipeline): Promise<string> {
  const [{ flow }, { default: setting }] = await Promise.all([pipeline.sources(), import('./setting.ts?raw')]);
  const imports = importsOf([flow, setting, MAIN_IMPORTS]);
  const values = Object.entries(scenario).map(([name, value]) => `  ${name}: ${typeof value === 'string' ? `'${value}'` : String(value)},`);
  return `// ${title}, as it was set in the playground. In a project with \`npm install sluice rxjs\` and \`npm install -D tsx\`: npx tsx pipeline.ts
// It runs in virtual time: \`call\` stands for your provider. Leave out \`scheduler\` and \`random\`, and it runs in yours.
${imports}

const scenario: Scenario = {
${values.join('\n')}
};

${bodyOf(flow)}
${bodyOf(setting)}
${main(pipeline.newestOnly)}`;
}

/** A file without its imports, and with nothing exported. */
export function bodyOf(source: string): string {
  return `${source
    .replaceAll(IMPORT, '')
    .replaceAll(/^export (type \{.*\n)?/gm, '')
    .trim()}\n`;
}

/** The imports of several files from packages, each name once. */
function importsOf(sources: readonly string[]): string {
  const byPackage = new Map<string, Set<string>>();
  for (const [, type = '', names = '', path = ''] of sources.flatMap((source) => [...source.matchAll(IMPORT)])) {
    const from = path.startsWith('.') ? PACKAGES.find(([ending]) => path.endsWith(ending))?.[1] : path;
    if (from === undefined) continue;
    const key = `import ${type}{ % } from '${from}';`;
    const known = byPackage.get(key) ?? new Set();
    for (const name of names.split(',').map((part) => part.trim())) if (name !== '') known.add(name);
    byPackage.set(key, known);
  }
  return [...byPackage]
    .map(([key, names]) => key.replace('%', [...names].toSorted().join(', ')))
    .toSorted()
    .join('\n');
}

const MAIN_IMPORTS = "import { VirtualTimeScheduler } from 'rxjs';\nimport type { FlowEvent } from '../operators/index.js';\n";

const main = (newestOnly: boolean): string => `const scheduler = new VirtualTimeScheduler();
/** What happens, as numbers: print it as lines of JSON for \`npx sluice inspect\`. */
const onEvent = (_event: FlowEvent): void => undefined;
const setting = createSetting(scenario, scheduler, onEvent, ${String(newestOnly)});
const run = flow(setting).subscribe(({ input, status }) => {
  setting.tally.settle(input, status === 'fulfilled');
});
// The load, and a minute for what is still under way then.
scheduler.maxFrames = scenario.seconds * 1000 + 60_000;
scheduler.flush();
if (scheduler.actions.length > 0) scheduler.frame = scheduler.maxFrames;
run.unsubscribe();
console.log(JSON.stringify(setting.tally.counts));
`;
