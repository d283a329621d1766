import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
// oxlint-disable-next-line no-restricted-imports -- the table is not exported, and the pages are compared with it
import * as defaults from '../../operators/options/defaults.js';
import { operators } from './files.js';

const project = resolve(import.meta.dirname, '../..');

const pathOf = (name: string): string => join(project, 'operators', `${name}.ts`);

/** `batch-map` has `BatchMapOptions`, `create-limiter` has `LimiterOptions`. */
function optionsNameOf(name: string): string {
  return `${name.replace(/^create-/, '').replaceAll(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Options`;
}

const program = ts.createProgram([...operators, 'index'].map(pathOf), {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.NodeNext,
  types: [],
});
const checker = program.getTypeChecker();

interface Option {
  readonly name: string;
  /** What `@defaultValue` says. */
  readonly fallback: string | undefined;
}

/** A type that a file exports, and the types that it is one of. */
function typesIn(name: string, typeName: string): ts.Type[] | undefined {
  const file = program.getSourceFile(pathOf(name));
  const module = file && checker.getSymbolAtLocation(file);
  const symbol = module && checker.getExportsOfModule(module).find((exported) => exported.name === typeName);
  if (symbol === undefined) return undefined;
  const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const type = checker.getDeclaredTypeOfSymbol(target);
  return type.isUnion() ? type.types : [type];
}

/** All options of an operator, those of the interfaces it extends included; undefined when it has none. */
function optionsOf(name: string, typeName = optionsNameOf(name)): Option[] | undefined {
  const properties = typesIn(name, typeName)?.flatMap((member) => checker.getPropertiesOfType(member));
  return properties && [...new Map(properties.map((property) => [property.name, optionOf(property)])).values()];
}

function optionOf(property: ts.Symbol): Option {
  const tag = property.getJsDocTags(checker).find((each) => each.name === 'defaultValue');
  return { name: property.name, fallback: ts.displayPartsToString(tag?.text).trim() };
}

interface Row {
  /** Names in the first column. */
  readonly options: readonly string[];
  readonly fallback: string;
}

/** The rows of the tables with such a head under such a heading, in cells. A `|` inside code is written `\|`. */
function tableOn(name: string, heading: string, head: string): string[][] {
  const page = readFileSync(join(project, `docs/${name}.md`), 'utf8');
  const section = new RegExp(`^## ${heading}$([^]*?)(?:^## |(?![^]))`, 'm').exec(page)?.[1] ?? '';
  const tables = section.split('\n\n').filter((part) => part.startsWith(`| ${head} |`));
  return tables.flatMap((table) => table.split('\n').slice(2)).map((row) => row.split(/(?<!\\)\|/).slice(1, -1));
}

/** The table under Defaults, and that of a page that a row "all others" points to. */
function rowsOn(name: string): Row[] {
  return tableOn(`operators/${name}`, 'Defaults', 'option').flatMap((cells) => {
    const [first = '', second = ''] = cells;
    const other = /\(([a-z-]+)\.md#defaults\)/.exec(cells.join(''))?.[1];
    if (first.trim() === 'all others' && other !== undefined) return rowsOn(other);
    return { options: [...first.matchAll(/`([\w.]+)`/g)].map(([, option = '']) => option), fallback: second.replaceAll('`', '').trim() };
  });
}

/** Every type of event, and `type: field` for each field that it may have. */
function eventNames(): Set<string> {
  const found = new Set<string>();
  for (const member of typesIn('options/events', 'FlowEvent') ?? []) {
    const fields = checker.getPropertiesOfType(member);
    const types = fields.filter(({ name }) => name === 'type').map((field) => checker.getTypeOfSymbol(field));
    for (const each of types.flatMap((one) => (one.isUnion() ? one.types : [one]))) {
      if (!each.isStringLiteral()) continue;
      found.add(each.value);
      for (const { name } of fields) found.add(`${each.value}: ${name}`);
    }
  }
  return found;
}

/** Names between backticks that stand alone, or before a value. */
const namesIn = (cell = ''): string[] => [...cell.matchAll(/`(\w+)(?:: [^`]+)?`/g)].map(([, name = '']) => name);

/** A default that can be compared: a number, a word of code or none. Others are told in words of their own. */
const PLAIN = /^(?:-?[\d.]+|'\w+'|true|false|Infinity|none)$/;

describe('the page of', () => {
  it.each(operators)('%s lists every option', (name) => {
    const listed = new Set(rowsOn(name).flatMap(({ options }) => options));
    const missing = (optionsOf(name) ?? []).filter((option) => !listed.has(option.name));
    expect(missing).toEqual([]);
  });

  it.each(operators)('%s lists no option that there is not', (name) => {
    const known = new Set((optionsOf(name) ?? []).map((option) => option.name));
    const listed = rowsOn(name).flatMap(({ options }) => options);
    // `opens.share` is a part of `opens`.
    expect(listed.filter((option) => !known.has(option.split('.')[0] ?? ''))).toEqual([]);
  });

  it.each(operators)('%s names events and fields that there are', (name) => {
    const known = eventNames();
    expect(known).toContain('batchFormed: reason');
    const wrong = tableOn(`operators/${name}`, 'Telemetry', 'event').flatMap(([event, , fields]) => {
      const events = namesIn(event);
      // In parentheses stand values of a field.
      const unknown = namesIn(fields?.replaceAll(/\([^)]*\)/g, '')).filter(
        (field) => !events.some((each) => known.has(`${each}: ${field}`)),
      );
      return [...events.filter((each) => !known.has(each)), ...unknown.map((field) => `${events.join(', ')}: ${field}`)];
    });
    expect(wrong).toEqual([]);
  });

  it.each(operators)('%s tells the defaults that the options tell', (name) => {
    const rows = rowsOn(name);
    const wrong = (optionsOf(name) ?? []).flatMap(({ name: option, fallback = '' }) => {
      const row = rows.find(({ options }) => options.includes(option));
      if (row === undefined || !PLAIN.test(fallback)) return [];
      return row.fallback.replaceAll(',', '') === fallback ? [] : [`${option}: ${row.fallback}, not ${fallback}`];
    });
    expect(wrong).toEqual([]);
  });

  it('an operator with options is compared with its type', () => {
    const names = optionsOf('batch-map')?.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['maxSize', 'order', 'onEvent']));
    expect(operators.filter((name) => optionsOf(name) === undefined)).toEqual([
      'classify-error',
      'from-native',
      'from-stream',
      'from-subscribable',
    ]);
  });
});

describe('the table of defaults', () => {
  const { GATED_BATCHES, BATCH_MAP, BATCH_MAP_FROM, CONCURRENCY, ITEMS } = defaults;
  const { errors, timeoutMs, deadlineMs } = ITEMS;
  /** What each type of options says, by file, type and the table. */
  const tables: readonly (readonly [string, string | undefined, Readonly<Record<string, string | number | boolean | undefined>>])[] = [
    ['batch', undefined, defaults.BATCH],
    ['batch-map', undefined, { ...GATED_BATCHES, ...BATCH_MAP, concurrency: CONCURRENCY.batches }],
    [
      'batch-map-from',
      undefined,
      { ...GATED_BATCHES, ...BATCH_MAP, ...BATCH_MAP_FROM, overflow: undefined, concurrency: CONCURRENCY.batches },
    ],
    ['create-batcher', undefined, { ...GATED_BATCHES, concurrency: CONCURRENCY.batches }],
    ['bulkhead-map', undefined, { ...ITEMS, concurrency: CONCURRENCY.bulkheadMap }],
    ['settle-all', undefined, { errors, timeoutMs, deadlineMs, concurrency: CONCURRENCY.settleAll }],
    ['backpressure', undefined, defaults.BACKPRESSURE],
    ['conflate-while-busy', undefined, defaults.CONFLATE_WHILE_BUSY],
    ['rate-limit', undefined, defaults.RATE_LIMIT],
    ['resequence', undefined, defaults.RESEQUENCE],
    ['coalesce', undefined, defaults.COALESCE],
    ['to-store', undefined, { keepAliveMs: defaults.TO_STORE.keepAliveMs }],
    ['to-async-iterable', undefined, defaults.PULLED],
    ['to-readable-stream', undefined, defaults.PULLED],
    ['switch-latest', undefined, defaults.SWITCH_LATEST],
    ['speculate', undefined, defaults.SPECULATE],
    ['merge-lanes', undefined, defaults.MERGE_LANES],
    ['options/types', 'LaneOptions', defaults.LANE],
    ['create-intake', 'IntakeOptions', defaults.CREATE_INTAKE],
    ['options/limiter', 'LimiterOptions', defaults.CREATE_LIMITER],
    ['keyed-limiter', undefined, defaults.KEYED_LIMITER],
    ['adaptive-limit', undefined, defaults.ADAPTIVE_LIMIT],
    ['policy', undefined, defaults.POLICY],
    ['options/retry', 'RetryOptions', defaults.RETRY_FAILED],
    ['repair', 'DivideOptions', { parts: defaults.DIVIDE_AND_CONQUER.parts }],
    ['hedge', undefined, defaults.HEDGE],
    ['create-breaker', 'BreakerOptions', defaults.CREATE_BREAKER],
    ['create-breaker', 'OpenRule', { ...defaults.BREAKER_OPENS, share: defaults.BREAKER_OPENS_SHARE }],
    ['create-breaker', 'CloseRule', defaults.BREAKER_CLOSES],
    ['lru-cache', undefined, defaults.LRU_CACHE],
  ];

  it.each(tables)('of %s (%s) says what the options say', (name, type, table) => {
    const options = optionsOf(name, type ?? optionsNameOf(name)) ?? [];
    expect(options).not.toEqual([]);
    const wrong = Object.entries(table).flatMap(([option, value]) => {
      if (value === undefined) return [];
      const { fallback = '' } = options.find((each) => each.name === option) ?? {};
      // `20000, or ...`
      const said = fallback.replaceAll("'", '').split(', ')[0];
      return said === String(value) ? [] : [`${option}: ${fallback}, not ${String(value)}`];
    });
    expect(wrong).toEqual([]);
  });

  it('has an entry for each constant', () => {
    const used = new Set(Object.values(defaults).filter((value) => typeof value === 'object' && !Array.isArray(value)));
    for (const [, , table] of tables) used.delete(table as never);
    // Those of several operators, and those that options tell in words.
    const others = [GATED_BATCHES, BATCH_MAP, BATCH_MAP_FROM, ITEMS, CONCURRENCY, defaults.TO_STORE, defaults.PACE_WAIT_MS];
    const partly = [defaults.DIVIDE_AND_CONQUER, defaults.BREAKER_OPENS];
    for (const value of [...others, ...partly]) used.delete(value);
    expect([...used]).toEqual([]);
  });
});

describe('the guide for users of', () => {
  const known = new Set(
    [
      ...['batch', 'batch-map', 'create-batcher', 'create-limiter'].map((name) => optionsOf(name)),
      ...[optionsOf('create-batcher', 'Batcher'), optionsOf('create-limiter', 'Limiter')],
    ].flatMap((options = []) => options.map(({ name }) => name)),
  );

  it.each(['bottleneck', 'buffer-time', 'dataloader', 'p-queue'])('%s names options and methods that there are', (name) => {
    const rows = tableOn(`guides/migrating-from-${name}`, 'Option by option', 'theirs');
    expect(rows.length).toBeGreaterThan(5);
    const ours = rows.flatMap(([, cell]) => namesIn(cell));
    // What a batcher calls is no option of it.
    expect(ours.filter((each) => each !== 'work' && !known.has(each))).toEqual([]);
  });
});
