// Consumers compile against the packed package: every export of every entry point, as ECMAScript and as CommonJS modules.
// They compile with every compiler and module resolution in use, and without `skipLibCheck` except for the SDKs. Build first, then:
//   node .ci/check-types.mjs                        The newest compiler, and of each other what only it has.
//   node .ci/check-types.mjs TypeScript             All compilers with all settings, and all declarations.
//   node .ci/check-types.mjs '5.9.3, Bundler' used  The rows whose names contain any of these words.
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { allBeside, entryPoints, install, inThrowAwayFolder, manifest, pack, pinned, project, readJson, report, run } from './consumer.mjs';

const compilers = ['5.4.5', '5.9.3', '6.0.3', '7.0.2'];
/** Those that this project is developed with. */
const own = Object.fromEntries(
  ['typescript', 'typescript7'].map((name) => [readJson(join(project, 'node_modules', name, 'package.json')).version, name]),
);
// The SDKs ask for those.
const newCompilers = compilers.slice(1);
const sources = join(project, 'test', 'consumer');
const allFiles = readdirSync(sources).filter((file) => file.endsWith('.mts'));
// The SDKs' own declarations do not pass everywhere; what is wrong in those is theirs.
const isAdapter = (file) => file.startsWith('adapter-');
const files = allFiles.filter((file) => !isAdapter(file));
const adapters = allFiles.filter(isAdapter);
const common = { target: 'ES2022', strict: true, noEmit: true };
const node = { ...common, lib: ['ES2022'], types: ['node'] };
const bundler = { ...common, module: 'ESNext', moduleResolution: 'Bundler' };

// No `lib` beside what ES2022 projects have: what the declarations need more, they say themselves.
const projects = [
  { name: 'NodeNext', options: { ...node, module: 'NodeNext', moduleResolution: 'NodeNext' }, files, skipped: ['5.9.3', '6.0.3'] },
  { name: 'Bundler', options: { ...bundler, lib: ['ES2022', 'DOM'], types: ['node'] }, files, skipped: ['5.4.5', '6.0.3'] },
  // vitest brings the types of Node along.
  {
    name: 'Bundler, browser without the types of Node',
    options: { ...bundler, lib: ['ES2022', 'DOM'], types: [] },
    files: files.filter((file) => !file.includes('vitest')),
    skipped: ['5.4.5', '5.9.3', '6.0.3'],
  },
  {
    name: 'NodeNext, adapters',
    options: { ...node, lib: ['ES2022', 'DOM'], module: 'NodeNext', moduleResolution: 'NodeNext' },
    files: adapters,
    compilers: newCompilers,
    // The SDKs' declarations take minutes: errors in them are looked for when all is asked for, and the first compiler alone takes CommonJS modules.
    skipped: ['6.0.3'],
    skipLibCheck: newCompilers,
    commonJs: newCompilers.slice(0, 1),
  },
  {
    name: 'Bundler, adapters',
    options: { ...bundler, lib: ['ES2022', 'DOM'], types: ['node'] },
    files: adapters,
    compilers: newCompilers.slice(-1),
    skipLibCheck: newCompilers,
    commonJs: [],
  },
];

/** The clients of AG-UI that bring RxJS 7.8.1: beside that version there is one copy, beside every other one there are two. */
const clients = [manifest.devDependencies['@ag-ui/client'], '0.0.59'];
const oneCopy = { options: { ...bundler, lib: ['ES2022', 'DOM'], types: ['node'] }, files: ['adapter-ag-ui.mts'], mayBeForeign: true };

const asked = process.argv.slice(2);

await inThrowAwayFolder('types', async (folder) => {
  const consumer = join(folder, 'consumer');
  const tarball = pack(folder, { isBuilt: true });
  install(consumer, tarball, ...allBeside);
  const shared = join(folder, 'shared');
  const missing = compilers.filter((version) => isNeeded(version) && own[version] === undefined);
  install(join(folder, 'compilers'), ...missing.map((version) => `typescript-${version}@npm:typescript@${version}`));
  copyConsumer(consumer);
  for (const client of clients) {
    install(join(shared, client), tarball, 'rxjs@7.8.1', `@ag-ui/client@${client}`, ...pinned('@types/node', 'zod'));
    copyConsumer(join(shared, client));
  }
  const rows = [
    ['every export is used', () => checkCoverage(consumer)],
    ...compilers.flatMap((version) =>
      projects
        .filter((settings) => goesWith(settings, version))
        .map((settings) => [`TypeScript ${version}, ${settings.name}`, () => compile(folder, consumer, version, settings)]),
    ),
    ...clients.flatMap((client, i) =>
      (i === 0 && asked.length > 0 ? [newCompilers[0], newCompilers.at(-1)] : newCompilers.slice(-1)).map((version) => [
        `TypeScript ${version}, @ag-ui/client ${client} and one RxJS`,
        () => compile(folder, join(shared, client), version, oneCopy),
      ]),
    ),
  ];
  await report(asked.length === 0 ? rows : rows.filter(([name]) => asked.some((part) => name.includes(part))));
});

function goesWith({ compilers: some = compilers, skipped = [] }, version) {
  return some.includes(version) && (asked.length > 0 || !skipped.includes(version));
}

function isNeeded(version) {
  return projects.some((settings) => goesWith(settings, version));
}

/** The same text is an ECMAScript module and a CommonJS module. */
function copyConsumer(consumer) {
  cpSync(join(sources, 'same.d.ts'), join(consumer, 'same.d.ts'));
  for (const file of allFiles) {
    const text = readFileSync(join(sources, file), 'utf8');
    writeFileSync(join(consumer, file), text);
    writeFileSync(join(consumer, commonJs(file)), text);
  }
}

function commonJs(file) {
  return file.replace(/\.mts$/, '.cts');
}

function compile(folder, consumer, version, settings) {
  const config = 'tsconfig.json';
  const { commonJs: compilersOfBoth = compilers, skipLibCheck = [] } = settings;
  const compilerOptions = { ...settings.options, skipLibCheck: asked.length === 0 && skipLibCheck.includes(version) };
  const inputs = ['same.d.ts', ...settings.files, ...(compilersOfBoth.includes(version) ? settings.files.map(commonJs) : [])];
  writeFileSync(join(consumer, config), JSON.stringify({ compilerOptions, files: inputs }));
  const [place, name] = own[version] === undefined ? [join(folder, 'compilers'), `typescript-${version}`] : [project, own[version]];
  const compiler = join(place, 'node_modules', name, 'bin', 'tsc');
  try {
    // Version 7 reads most types anew in each of four threads, unless it is told to have one.
    const threads = version.startsWith('7.') ? ['--checkers', '1'] : [];
    run('node', [compiler, '-p', config, '--pretty', 'false', ...threads], consumer);
  } catch (error) {
    const foreign = settings.mayBeForeign === true || settings.files === adapters ? foreignErrors(error.message) : 0;
    if (foreign === 0) throw error;
    return `${inputs.length} files, ${foreign} errors in declarations of the SDKs`;
  }
  return `${inputs.length} files`;
}

/** How many there are when all of them are in packages other than ours, else 0. */
function foreignErrors(output) {
  const errors = output.split('\n').filter((line) => /\berror TS\d+:/.test(line));
  const isForeign = (line) => /^node_modules\/(?!sluice\/)/.test(line);
  return errors.every(isForeign) ? errors.length : 0;
}

/** A new export that no consumer file imports would never be compiled, so it is an error. */
function checkCoverage(consumer) {
  const exported = exportsOf(consumer);
  const entries = entryPoints.map((name) => ({ name, exported: exported.get(name), used: importsOf(name) }));
  const { exported: operators } = entries.find(({ name }) => name === `${manifest.name}/operators`);
  const unused = entries.flatMap(({ name, exported, used }) =>
    // The root entry hands out the operators once more.
    exported.filter((item) => !used.has(item) && !(name === manifest.name && operators.includes(item))).map((item) => `${name}: ${item}`),
  );
  if (unused.length > 0) throw new Error(`exports that no file in test/consumer imports:\n${unused.join('\n')}`);
  return `${entries.reduce((sum, { exported }) => sum + exported.length, 0)} exports of ${entries.length} entry points`;
}

/** The names that each entry point exports. */
function exportsOf(consumer) {
  const file = join(consumer, 'exports.mts');
  const options = { moduleResolution: ts.ModuleResolutionKind.Bundler, skipLibCheck: true, types: [], noLib: true };
  const host = ts.createCompilerHost(options);
  const resolve = (name, from) => ts.resolveModuleName(name, from, options, host).resolvedModule;
  const declarations = entryPoints.map((name) => {
    const found = resolve(name, file)?.resolvedFileName;
    if (found === undefined) throw new Error(`${name} has no declarations`);
    return found;
  });
  // Names alone: they need no other package.
  host.resolveModuleNameLiterals = (names, from) =>
    names.map(({ text }) => ({ resolvedModule: text.startsWith('.') ? resolve(text, from) : undefined }));
  const program = ts.createProgram(declarations, options, host);
  const checker = program.getTypeChecker();
  return new Map(
    entryPoints.map((name, at) => {
      const module = checker.getSymbolAtLocation(program.getSourceFile(declarations[at]));
      return [name, checker.getExportsOfModule(module).map((symbol) => symbol.name)];
    }),
  );
}

/** The names that the consumer files import from this entry point. */
function importsOf(name) {
  const imports = allFiles
    .map((file) => ts.createSourceFile(file, readFileSync(join(sources, file), 'utf8'), ts.ScriptTarget.ES2022))
    .flatMap(({ statements }) =>
      statements.filter((statement) => ts.isImportDeclaration(statement) && statement.moduleSpecifier.text === name),
    );
  return new Set(
    imports.flatMap(({ importClause }) => importClause.namedBindings.elements.map((item) => (item.propertyName ?? item.name).text)),
  );
}
