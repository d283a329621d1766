// What `.ci/run` looks at of fresh projects, in one that has all peers; `npm run check:fresh` has all kinds of them.
import { join } from 'node:path';
import { add, allBeside, project } from '../consumer.mjs';
import { packagesOf, readmeBlocks } from './blocks.mjs';
import { checkFirstUse, examples } from './first-use.mjs';
import { compileAll, runBlocks } from './node.mjs';

/** The README's code as CommonJS modules, with the values it says, and as the newest TypeScript sees it. */
export async function checkReadme(consumer) {
  const blocks = readmeBlocks();
  const missing = packagesOf([...blocks, ...examples].map(({ code }) => code)).filter((name) => !allBeside.includes(name));
  if (missing.length > 0) add(consumer, ...missing);
  const typed = [...blocks.filter(({ isFor }) => isFor.types), ...examples];
  const compiler = join(project, 'node_modules/typescript7/bin/tsc');
  return `${await runBlocks(consumer, blocks, 'cjs')}, TypeScript ${compileAll(consumer, 'readme', typed, compiler)}`;
}

/** From nothing to limited calls in a few lines. */
export async function checkFirstPrograms(consumer) {
  const told = await Promise.all(examples.map((example) => checkFirstUse(consumer, example)));
  return examples.map(({ file }, i) => `${file} ${told[i]}`).join(', ');
}
