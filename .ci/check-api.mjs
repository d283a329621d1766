// The public surface of every entry point, as a report in docs/api that a reviewer reads in the diff. An export of several entries stands in the
// report of the first of them, and the other reports name that one. Build first, then:
//   node .ci/check-api.mjs                      Compare; exit 1 when a report is out of date.
//   node .ci/check-api.mjs --write              Write the reports; exit 1 without writing when a `@stable` export is gone or changed in a way that breaks its users.
//   node .ci/check-api.mjs --write --breaking   Write them all the same: the next release is a breaking one, and CHANGELOG.md says what to do.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import extractor from '@microsoft/api-extractor';
import ts from 'typescript';
import { manifest, project, readJson } from './consumer.mjs';

const { CompilerState, Extractor, ExtractorConfig } = extractor;
const { values: flags } = parseArgs({ options: { write: { type: 'boolean' }, breaking: { type: 'boolean' } } });
const folder = join(project, 'docs', 'api');
const { compilerOptions } = readJson(join(project, 'tsconfig.json'));

/** The first to have a declaration shows it; the others follow in the order of the manifest. */
const FIRST = ['./operators', '.'];
const paths = Object.keys(manifest.exports).filter((path) => path !== './package.json');
const owners = new Map();
/** What each entry exports, by the name of its report. */
const exportsOf = new Map();

const fresh = mkdtempSync(join(tmpdir(), 'sluice-api-'));
const files = paths.map((path) => join(project, manifest.exports[path].import.types));
/** All entries in one program: their types, and those of their peers, are read once. */
let compilerState;
const reports = new Map();
try {
  for (const path of [...FIRST, ...paths.filter((path) => !FIRST.includes(path))]) {
    compare(`${manifest.name}${path.slice(1)}`, manifest.exports[path].import.types);
  }
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
if (flags.write) writeReports();

function writeReports() {
  const committed = readdirSync(folder).map((name) => readIfThere(join(folder, name)));
  const broken = brokenExports(committed, [...reports.values()]);
  if (broken.length > 0 && !flags.breaking) {
    console.log(`FAIL stable exports changed, and nothing was written:\n${broken.map((line) => `  ${line}`).join('\n')}`);
    console.log('  keep them as they were, or run `npm run api -- --breaking` and say in CHANGELOG.md what users have to do');
    process.exitCode = 1;
    return;
  }
  for (const [name, text] of reports) writeFileSync(join(folder, name), text);
}

/** What programs that use the stable exports of the old reports would miss in the new ones. Interfaces may get optional members. */
function brokenExports(before, after) {
  const now = new Map(exportedIn(after).map((each) => [each.name, each]));
  return exportedIn(before).flatMap(({ name, text, members, isStable }) => {
    const found = now.get(name);
    if (!isStable || found?.text === text) return [];
    if (!found) return [`${name} is gone`];
    if (!members || !found.members) return [`${name} is declared differently`];
    const lost = [...members].filter((member) => !found.members.has(member));
    const required = [...found.members].filter((member) => !members.has(member) && !/^(readonly )?\w+\?:/.test(member));
    return [...lost.map((member) => `${name} has no longer \`${member}\``), ...required.map((member) => `${name} requires \`${member}\``)];
  });
}

/** The exported declarations of reports, overloads as one, with the members of interfaces. */
function exportedIn(texts) {
  const found = new Map();
  for (const each of texts.flatMap(declaredIn)) {
    const overload = found.get(each.name);
    found.set(each.name, overload ? { ...overload, text: `${overload.text}\n${each.text}` } : each);
  }
  return [...found.values()];
}

function declaredIn(report) {
  const [, body = ''] = /```ts\n([\s\S]*?)```/.exec(report) ?? [];
  const file = ts.createSourceFile('report.d.ts', body, ts.ScriptTarget.Latest, true);
  const spaced = (node) => node.getText().replace(/\s+/g, ' ');
  return file.statements.flatMap((statement) => {
    if (!statement.getText().startsWith('export ')) return [];
    const declared = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement];
    const isStable = !/\/\/ @(beta|internal)/.test(statement.getFullText());
    const members = ts.isInterfaceDeclaration(statement) ? new Set(statement.members.map(spaced)) : undefined;
    const head = members ? spaced(statement).split(' {')[0] : spaced(statement);
    return declared.flatMap(({ name }) =>
      name ? [{ name: name.getText(), text: members ? `${head} ${[...members].join(' ')}` : head, members, isStable }] : [],
    );
  });
}

function compare(entryPoint, declarations) {
  const name = `${entryPoint.replaceAll('/', '-')}.api.md`;
  const text = reportOf(entryPoint, declarationsOf(entryPoint, declarations, name), name);
  const file = join(folder, name);
  reports.set(name, text);
  if (flags.write) return;
  const [line, was, is] = firstDifference(readIfThere(file), text);
  console.log(`${line === undefined ? 'ok  ' : 'FAIL'} ${entryPoint}: docs/api/${name}`);
  if (line === undefined) return;
  console.log(`  differs from line ${line} on; run \`npm run api\` and read the difference\n  - ${was}\n  + ${is}`);
  process.exitCode = 1;
}

function reportOf(entryPoint, body, name) {
  const statements = statementsOf(body);
  const exported = new Set(statements.flatMap(({ names, isExported }) => (isExported ? names : [])));
  const whole = [...exportsOf].filter(([, { names }]) => names.size > 1 && [...names].every((each) => exported.has(each)));
  const inWhole = new Set(whole.flatMap(([, { names }]) => [...names]));
  exportsOf.set(name, { entryPoint, names: exported });
  const own = [];
  const elsewhere = new Map();
  for (const { text, mark, names, isExported } of statements) {
    // Whether it is exported is a matter of the entry, not of the declaration.
    const declaration = text.replace(/^export (?:declare )?/, '').replace(/^declare /, '');
    const owner = owners.get(declaration);
    if (owner === undefined) {
      owners.set(declaration, { entryPoint, name });
      own.push(mark + text);
    } else {
      const lists = elsewhere.get(owner.name) ?? { ...owner, exported: [], used: [] };
      elsewhere.set(owner.name, lists);
      lists[isExported ? 'exported' : 'used'].push(...names.filter((each) => !(isExported && inWhole.has(each))));
    }
  }
  const everything = whole.map(([report, { entryPoint: other }]) => `Everything that [${other}](${report}) exports.`);
  const references = [...elsewhere.values()].flatMap(({ entryPoint: other, name: report, exported: too, used }) => [
    ...(too.length === 0 ? [] : [`Exported here too, declared in [${other}](${report}): ${listed(too)}.`]),
    ...(used.length === 0 ? [] : [`Used here, declared in [${other}](${report}): ${listed(used)}.`]),
  ]);
  const parts = [
    `# ${entryPoint}`,
    'Generated by `npm run api` from the built declarations; do not edit. Types without `export` are used by others, but cannot be imported.',
    ...(own.length === 0 ? [] : [`\`\`\`ts\n${own.join('\n\n')}\n\`\`\``]),
    ...everything,
    ...references,
  ];
  return `${parts.join('\n\n')}\n`;
}

function listed(names) {
  return [...new Set(names)].map((name) => `\`${name}\``).join(', ');
}

function statementsOf(body) {
  const file = ts.createSourceFile('report.d.ts', body, ts.ScriptTarget.Latest, true);
  return file.statements.map((statement) => {
    const declared = ts.isVariableStatement(statement) ? statement.declarationList.declarations : [statement];
    const names = declared.flatMap(({ name }) => (name ? [name.getText()] : []));
    const text = statement.getText();
    const [mark = ''] = /\/\/ @(beta|internal)\b/.exec(statement.getFullText().slice(0, statement.getLeadingTriviaWidth())) ?? [];
    return { text, mark: mark && `${mark}\n`, names, isExported: text.startsWith('export ') };
  });
}

/** What the bundled declarations export, sorted, with the types they use but do not export, and without comments. */
function declarationsOf(entryPoint, declarations, name) {
  const config = ExtractorConfig.prepare({
    packageJsonFullPath: join(project, 'package.json'),
    configObject: {
      projectFolder: project,
      mainEntryPointFilePath: join(project, declarations),
      compiler: { overrideTsconfig: { compilerOptions, files } },
      apiReport: {
        enabled: true,
        reportFileName: name,
        reportFolder: fresh,
        reportTempFolder: join(fresh, 'temp'),
        includeForgottenExports: true,
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: { default: { logLevel: 'error' } },
        extractorMessageReporting: { default: { logLevel: 'none' } },
        tsdocMessageReporting: { default: { logLevel: 'none' } },
      },
      newlineKind: 'lf',
    },
  });
  const messageCallback = (message) => {
    if (message.logLevel !== 'error') message.handled = true;
  };
  compilerState ??= CompilerState.create(config, { additionalEntryPoints: files });
  const { succeeded } = Extractor.invoke(config, { localBuild: true, messageCallback, compilerState });
  if (!succeeded) throw new Error(`${entryPoint}: the declarations cannot be read`);
  const [, body] = /```ts\n([\s\S]*)```/.exec(readFileSync(join(fresh, name), 'utf8'));
  const lines = body.split('\n').filter((line) => !/^\s*\/\/ (@public|\(undocumented\)|\(No @packageDocumentation|Warning: )/.test(line));
  return lines.join('\n');
}

function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return '';
    throw error;
  }
}

function firstDifference(before, after) {
  if (before === after) return [];
  const [was, is] = [before.split('\n'), after.split('\n')];
  const index = is.findIndex((line, at) => line !== was[at]);
  const at = index === -1 ? is.length : index;
  return [at + 1, was[at] ?? '(end)', is[at] ?? '(end)'];
}
