// The packed package in fresh projects of every kind, each with every code block of the README that its kind can hold, as the page has it; and the first
// programs of examples/first-use against a model API on this machine. Builds, packs and installs; takes minutes:
//   node .ci/check-fresh.mjs             all
//   node .ci/check-fresh.mjs Next Vite   the rows whose names have any of these in them
// `.ci/run` has CommonJS and the newest TypeScript in `check:pack`.
import { join } from 'node:path';
import { install, inThrowAwayFolder, pack, pinned, report } from './consumer.mjs';
import { packagesOf, readmeBlocks } from './fresh/blocks.mjs';
import { checkFirstUse, examples } from './fresh/first-use.mjs';
import { compileAll, runBlocks } from './fresh/node.mjs';
import { checkNext, checkVite, checkWorker } from './fresh/pages.mjs';

const react = pinned('react', 'react-dom');
const reactTypes = pinned('@types/react', '@types/react-dom');
const compilers = ['5.9.3', '6.0.3', '7.0.2'];
const asked = process.argv.slice(2);

await inThrowAwayFolder('fresh', async (folder) => {
  const tarball = pack(folder, { isBuilt: false });
  const blocks = readmeBlocks();
  const peers = packagesOf(blocks.map(({ code }) => code));
  const typed = blocks.filter(({ isFor }) => isFor.types);
  /** A row of its own project, which has these packages beside those that the README names. */
  const kind = (name, check, ...packages) => [
    name,
    async () => {
      const project = join(folder, name.replaceAll(/\W+/g, '-'));
      install(project, tarball, ...peers, ...packages);
      return await check(project, blocks);
    },
  ];
  const rows = [
    kind('ECMAScript modules', (project) => runBlocks(project, blocks, 'esm')),
    kind('CommonJS modules', (project) => runBlocks(project, blocks, 'cjs')),
    ...compilers.map((version) =>
      kind(
        `TypeScript ${version}`,
        (project) => compileAll(project, 'readme', typed, join(project, 'node_modules/typescript/bin/tsc')),
        `typescript@${version}`,
        ...pinned('@types/node'),
      ),
    ),
    kind('Next', checkNext, 'next@16.4.6', 'typescript@6.0.3', ...react, ...reactTypes, ...pinned('@types/node')),
    kind('Vite with React', checkVite, 'vite@8.4.0', '@vitejs/plugin-react@6.3.0', ...react),
    kind('a web worker', checkWorker),
    ...examples.map((example) => [
      `first use: ${example.file}`,
      async () => {
        const project = join(folder, `first-use-${example.file}`);
        install(project, tarball, ...packagesOf([example.code]), 'typescript@7.0.2', ...pinned('@types/node'));
        const files = compileAll(project, 'types', [example], join(project, 'node_modules/typescript/bin/tsc'));
        return `${await checkFirstUse(project, example)}, ${files}`;
      },
    ]),
  ];
  await report(asked.length === 0 ? rows : rows.filter(([name]) => asked.some((part) => name.includes(part))));
});
