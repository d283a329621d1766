// Builds `dist`: modules in both systems, their declarations, the command and its page. `--silent` leaves out the list of files.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { writeCommonJs } from './commonjs.mjs';
import { manifest, project } from './consumer.mjs';
import { writeDeclarations } from './declarations.mjs';

const folder = join(project, 'dist');

for (const made of [folder, join(project, '.declarations')]) rmSync(made, { recursive: true, force: true });
// The compiler writes declarations ten times as fast as the one inside tsup, which is only given them to bundle.
run('node_modules/typescript7/bin/tsc', '-p', 'tsconfig.build.json');
run('node_modules/tsup/dist/cli-default.js', ...process.argv.slice(2));
// The command and its page are neither shared nor translated.
await writeCommonJs(folder, (name) => name !== 'cli' && name !== 'inspect-page');
const entries = Object.values(manifest.exports).flatMap(({ require }) => (require ? [basename(require.types, '.d.cts')] : []));
writeDeclarations(folder, entries);

function run(tool, ...args) {
  execFileSync('node', [join(project, tool), ...args], { cwd: project, stdio: 'inherit' });
}
