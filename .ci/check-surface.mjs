// What the package promises about its surface: how many names it has, that each is tagged `@stable`, `@beta` or `@internal`, that what a function returns can
// be named by its caller, and that docs/options.md gives each option name one meaning. Build first, then:
//   node .ci/check-surface.mjs           compare, exit 1 on a difference
//   node .ci/check-surface.mjs --write   write the columns of docs/options.md that the declarations decide; meanings are written by hand
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import ts from 'typescript';
import { manifest, project } from './consumer.mjs';

/** Names that came after 160 values, 300 types and 130 option names, each with its reason: at most 30 values and 20 option names. 16 of the values are for authors. */
const LATER = {
  values: {
    answerCache: 'a cache of a model caller as a value: bundles without one do not carry it',
    callAll: 'several model calls as a function: a caller without it does not carry the engine of items',
    classifyByStatus: 'the small classifier, for clients whose errors have a status and nothing else',
    embeddings: 'the embeddings API of an address as a value, as `chatCompletions` is',
    hedging: 'a hedge as a value of `policy`',
    loadFrom: 'loads an input that can wait through a batcher',
    stagesOptions: 'a configuration as arguments of `createStages`',
    fileJournal: 'a journal of stages that survives a kill, for programs without the command',
    JournalError: 'its error, with the reason to switch on',
    partitionSettled: 'parts results of any operator into successes and failures, with their types',
    ranked: 'a limiter queue in an order of its own, as stages need it',
    // What several processes share.
    localStore: 'limits that all processes of one machine share',
    redisStore: 'limits that processes on many machines share',
    memoryStore: 'limits that several limiters of one process share, and the store of tests',
    shared: 'rates of a limiter that several processes share',
    creditStoreLaws: 'the laws of a store, for the tests of one of the user',
    sharedStore: 'makes a store of the user one that accounts take',
    // `sluice/operators/build`: what authors of pipelines build with.
    check: 'checks of options, as one object',
    AbortCalls: 'calls that signals end, with one listener per signal',
    Alarm: 'a timer for a deadline that moves often',
    ShutdownHandle: 'drain, close and shutdownOn of a handle',
    ask: 'a callback of a user, whose error names the option',
    connect: 'a subscription that a synchronous source cannot outlive',
    evidenceOf: 'what an error of any SDK says about itself',
    headerReader: 'response headers, whatever the case of their names',
    listenTo: 'the events of a limiter that the user made',
    onAbort: 'a function that is called when a signal aborts',
    openPull: 'an input that is read as fast as there is room',
    report: 'an error without a subscriber or promise',
    selectFrom: 'the `select` of a store',
    streamOf: 'the Observable in an answer that may be a stream',
    trampoline: 'steps of one subscription, one at a time',
    teller: 'events for `onEvent`, with operator, instance and time',
  },
  types: {
    ConfigNotice: 'what is right in a configuration and has no effect',
    ConfiguredStages: 'what `stagesOptions` returns',
    ConfiguredWork: 'what `stagesOptions` takes for a stage',
    FileJournal: 'what `fileJournal` opens',
    BudgetRefusal: 'what a refused call has asked of which limit',
    Credit: 'the port of a store: what it grants',
    CreditCorrection: 'the port of a store: what a credit has cost',
    CreditCorrections: 'the port of a store: the same of one owner',
    CreditLimit: 'the port of a store: a limit',
    CreditQuestion: 'the port of a store: what it is asked',
    CreditStore: 'the port of a store',
    CreditWait: 'the port of a store: no credit yet',
    LocalStoreOptions: 'options of `localStore`',
    RedisConnection: 'what `redisStore` needs of a connection',
    RedisStoreOptions: 'options of `redisStore`',
    MemoryStore: 'a store that can be saved',
    SavedCredit: 'what it saves',
    MemoryStoreOptions: 'options of `memoryStore`',
    StoreLawOptions: 'options of `creditStoreLaws`',
    StoreUnderTest: 'a store that is tested, with its clock',
    SharedOptions: 'options of `shared`',
    SharedStore: 'what `createAccount` takes as `store`',
  },
  optionNames: {
    guardMs: 'how long credit of a store is good for',
    leastShare: 'least that is asked of a store at a time',
    startsEmpty: 'whether a store begins as if another one had been lost',
    scope: 'what limits at a store are of',
    store: 'where several processes share the limits of an account or a budget',
    onSuperseded: 'told of an item that a newer one replaced',
    operator: 'what errors and events call a function that is built on this one',
    pauses: 'which limiter a pause of a child stops',
    policy: 'time limits and retries of an agent turn',
    resumable: 'work that continues where it stopped may be repeated after its first value',
    silenceMs: 'longest silence of a stream',
    estimateTokens: 'how many tokens the text of a cut or dropped stream had',
  },
};
const MOST = {
  rootValues: 35,
  values: 160 + Object.keys(LATER.values).length,
  types: 300 + Object.keys(LATER.types).length,
  optionNames: 130 + Object.keys(LATER.optionNames).length,
};
const TAGS = ['stable', 'beta', 'internal'];
/** The entries whose option names are counted. Adapters have those of the operators, and the few that their SDK asks for. */
const COUNTED = ['/', '/operators'];
/** Their options are those of a test, not of a program. */
const TESTING = ['/marbles', '/marbles/vitest'];
const OPTIONS_PAGE = join(project, 'docs', 'options.md');

const { values: flags } = parseArgs({ options: { write: { type: 'boolean' } } });
const problems = [];
const { checker, entries } = readDeclarations();
const { Alias, Value } = ts.SymbolFlags;

const names = namesOf(entries);
checkCounts();
checkTags();
checkReturns();
checkOptions();
for (const problem of problems) console.log(`FAIL ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

function readDeclarations() {
  const paths = Object.keys(manifest.exports).filter((path) => path !== './package.json');
  const files = paths.map((path) => join(project, manifest.exports[path].import.types));
  const options = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    strict: true,
  };
  const program = ts.createProgram(files, { ...options, skipLibCheck: true, types: ['node'] });
  const typeChecker = program.getTypeChecker();
  const exportsOf = (file) => typeChecker.getExportsOfModule(typeChecker.getSymbolAtLocation(program.getSourceFile(file)));
  return { checker: typeChecker, entries: paths.map((path, i) => ({ path: path.slice(1) || '/', exported: exportsOf(files[i]) })) };
}

/** Every exported symbol with the entries that export it, and whether it can be used as a value. */
function namesOf(all) {
  const found = new Map();
  for (const { path, exported } of all) {
    for (const symbol of exported) {
      const target = symbol.flags & Alias ? checker.getAliasedSymbol(symbol) : symbol;
      const isTypeOnly = symbol.declarations.every(
        (each) => ts.isExportSpecifier(each) && (each.isTypeOnly || each.parent.parent.isTypeOnly),
      );
      const row = found.get(target) ?? { name: symbol.name, paths: [], isValue: false };
      row.paths.push(path);
      row.isValue ||= (target.flags & Value) !== 0 && !isTypeOnly;
      found.set(target, row);
    }
  }
  return found;
}

function checkCounts() {
  const rows = [...names.values()];
  const distinct = (some) => new Set(some.map(({ name }) => name)).size;
  const values = rows.filter(({ isValue }) => isValue);
  const counts = {
    rootValues: distinct(values.filter(({ paths }) => paths.includes('/'))),
    values: distinct(values),
    types: distinct(rows.filter(({ isValue }) => !isValue)),
    optionNames: optionNames((path) => COUNTED.includes(path)).size,
  };
  for (const [what, count] of Object.entries(counts)) {
    console.log(`${what}: ${count} of ${MOST[what]}`);
    if (count > MOST[what]) problems.push(`${what}: ${count}, at most ${MOST[what]} are wanted`);
  }
}

function checkTags() {
  const counts = Object.fromEntries(TAGS.map((tag) => [tag, 0]));
  for (const [symbol, { name, paths }] of names) {
    const tags = symbol.getJsDocTags(checker).flatMap((tag) => (TAGS.includes(tag.name) ? [tag.name] : []));
    if (tags.length === 1) counts[tags[0]]++;
    else
      problems.push(
        `sluice${paths[0]}: ${name} has ${tags.length === 0 ? 'no tag' : 'several tags'}; add @stable, @beta or @internal to its docstring`,
      );
  }
  console.log(TAGS.map((tag) => `${counts[tag]} ${tag}`).join(', '));
}

/** A program that exports the result of one of our functions has to name its type in its own declarations. */
function checkReturns() {
  const hidden = new Map();
  for (const [symbol, { name, isValue }] of names) {
    if (!isValue) continue;
    for (const signature of checker.getTypeOfSymbol(symbol).getCallSignatures()) {
      for (const type of partsOf(signature.getReturnType())) {
        const named = type.aliasSymbol ?? type.symbol;
        if (named && isNamed(named) && !names.has(named)) hidden.set(named.name, name);
      }
    }
  }
  for (const [type, user] of hidden) problems.push(`${user} returns ${type}, which is not exported`);
}

function partsOf(type, seen = new Set()) {
  if (seen.has(type)) return seen;
  seen.add(type);
  if (type.aliasSymbol) return seen;
  for (const part of type.isUnionOrIntersection() ? type.types : checker.getTypeArguments(type)) partsOf(part, seen);
  return seen;
}

function isNamed(symbol) {
  const isOwn = symbol.declarations?.some((each) => each.getSourceFile().fileName.startsWith(join(project, 'dist')));
  // The compiler writes what a conditional type stands for, not its name.
  const isResolved = symbol.declarations?.some((each) => ts.isTypeAliasDeclaration(each) && ts.isConditionalTypeNode(each.type));
  return isOwn && !isResolved && (symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class | ts.SymbolFlags.TypeAlias)) !== 0;
}

/** Option names with the types that have them. */
function optionNames(isCounted = (path) => !TESTING.includes(path)) {
  const found = new Map();
  for (const [symbol, { name, paths }] of names) {
    if (!name.endsWith('Options') || !paths.some(isCounted)) continue;
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    for (const property of type.isUnion() ? type.types.flatMap((each) => each.getProperties()) : type.getProperties()) {
      const users = found.get(property.name) ?? new Set();
      found.set(property.name, users.add(name));
    }
  }
  return found;
}

function checkOptions() {
  const text = readFileSync(OPTIONS_PAGE, 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+)` \| (.*?) \| (.*?) \|$/gm)].map(([, name, meaning, users]) => ({ name, meaning, users }));
  const meanings = new Map(rows.map(({ name, meaning }) => [name, meaning]));
  const found = [...optionNames()].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name] of found) if (!meanings.get(name)) problems.push(`docs/options.md: \`${name}\` has no meaning`);
  const expected = found.map(([name, users]) => `| \`${name}\` | ${meanings.get(name) ?? ''} | ${shown(users)} |`).join('\n');
  const start = text.indexOf('| --- | --- | --- |\n') + '| --- | --- | --- |\n'.length;
  const end = text.indexOf('\n\n', start);
  const whole = `${text.slice(0, start)}${expected}${end === -1 ? '\n' : text.slice(end)}`;
  if (flags.write) writeFileSync(OPTIONS_PAGE, whole);
  else if (whole !== text) problems.push('docs/options.md: differs from the declarations; run `npm run surface`');
}

/** The first of them, and how many more. */
function shown(users) {
  const sorted = [...users].sort();
  const most = 4;
  const listed = sorted.slice(0, most).map((name) => `\`${name}\``);
  return sorted.length > most ? `${listed.join(', ')} and ${sorted.length - most} more` : listed.join(', ');
}
