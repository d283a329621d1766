import { type Document, isMap, isPair, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, visit, type YAMLMap } from 'yaml';
import { MOST_CHARS, MOST_DEPTH, MOST_VALUES, tooDeepAt } from './depth.js';
import { type Path, type Told, told } from './finding.js';
import { jsonFaultAt } from './json-fault.js';

/** Where something is in a text; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** What a text says, and where; or what is wrong with the text itself. */
export interface Source {
  readonly value: unknown;
  readonly faults: readonly Fault[];
  /** Where the value is, or, for what is not there, what it would be a part of. Undefined when there was no text. */
  placeOf(path: Path): Place | undefined;
}

export interface Fault extends Told {
  readonly place?: Place | undefined;
}

/** A key that schemas pass over. */
const PROTOTYPE = '__proto__';

/** A value that is there already. */
export function plainSource(value: unknown): Source {
  const left = { values: MOST_VALUES };
  try {
    if (!isSmall(value, 0, left))
      return faulty(
        told(
          'too large, or containing itself',
          `At most ${String(MOST_VALUES)} values and ${String(MOST_DEPTH)} levels of nesting are allowed.`,
        ),
      );
    // What says by itself how it is written, or cannot be.
    JSON.stringify(value);
    if (isPlain(value)) return { value, faults: [], placeOf: () => undefined };
  } catch {
    // Neither is what throws.
  }
  return faulty(told('not plain data', 'Use only what JSON can express.'));
}

/** What is within itself is too deep; what an anchor stands for counts wherever it is used. */
function isSmall(value: unknown, depth: number, left: { values: number }): boolean {
  left.values -= 1;
  if (left.values < 0 || depth > MOST_DEPTH) return false;
  return typeof value !== 'object' || value === null || Object.values(value).every((part) => isSmall(part, depth + 1, left));
}

/** A `Map` or a `Date` would pass for a mapping without a key. */
function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (Object.hasOwn(value, PROTOTYPE)) return false;
  const isKnown = Array.isArray(value) || Object.prototype.toString.call(value) === '[object Object]';
  return isKnown && Object.values(value).every(isPlain);
}

/** Never throws, and quotes nothing of the text: a fault may stand beside a key. */
export function readText(given: string, format: 'yaml' | 'json'): Source {
  // JSON knows no byte order mark.
  const text = given.replace(/^\uFEFF/, '');
  if (text.length > MOST_CHARS)
    return faulty(told(`the text has ${String(text.length)} characters`, `At most ${String(MOST_CHARS)} are allowed.`));
  // The parser goes down by recursion, and a text can be so deep that it takes the process with it, which nothing catches.
  const deepAt = tooDeepAt(text);
  if (deepAt !== undefined) {
    return faulty({
      ...told('lists and mappings are nested too deeply', `At most ${String(MOST_DEPTH)} levels are allowed.`),
      place: placeAt(text, deepAt),
    });
  }
  const lines = new LineCounter();
  const place = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  const brokenAt = format === 'json' ? jsonFaultAt(text) : undefined;
  if (brokenAt !== undefined) {
    return faulty({ ...told('invalid JSON', 'Correct the syntax.'), place: placeAt(text, brokenAt) });
  }
  try {
    // Its own search for keys that are there twice takes the square of their number.
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error', uniqueKeys: false });
    const faults = [...document.errors, ...document.warnings].map(({ code, pos: [offset] }): Fault => {
      const fault = FAULTS[code] ?? told(`invalid YAML (${code.toLowerCase().replaceAll('_', ' ')})`, 'Correct the syntax.');
      return { ...fault, place: place(offset) };
    });
    // Shown as part of a path it would be quoted.
    visit(document, {
      Map: (_, { items }) => {
        const seen = new Set<unknown>();
        for (const { key } of items) {
          const name = isScalar(key) ? key.value : key;
          if (seen.has(name)) faults.push({ ...told('duplicate key', 'Remove or rename one of them.'), place: place(offsetOf(key) ?? 0) });
          seen.add(name);
        }
      },
      Pair: (_, { key }) => {
        if (!isScalar(key))
          faults.push({ ...told('a key is a mapping or a list', 'Use a text as key.'), place: place(offsetOf(key) ?? 0) });
        else if (key.value === PROTOTYPE)
          faults.push({ ...told(`the key \`${PROTOTYPE}\` is not allowed`, 'Rename it.'), place: place(offsetOf(key) ?? 0) });
      },
    });
    if (faults.length > 0) return faulty(...(bareFaults(text, faults) ?? faults));
    const { value, faults: others } = plainSource(document.toJS());
    const pairOf = pairs();
    return { value, faults: others, placeOf: (path) => placeIn(document, path, pairOf, place) };
  } catch {
    return faulty(told('anchors contain themselves, or are used more than a hundred times', 'Write the values out.'));
  }
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset).split('\n');
  return { line: before.length, column: (before.at(-1) as string).length + 1 };
}

/** A placeholder without quotes, on a line where something is wrong: YAML reads it as a mapping. */
function bareFaults(text: string, faults: readonly Fault[]): readonly Fault[] | undefined {
  const lines = text.split('\n');
  for (const line of new Set(faults.map(({ place }) => place?.line ?? 0))) {
    const before = /^(.*?)\{\{/.exec(lines[line - 1] ?? '')?.[1];
    if (before === undefined || /["'][^"']*$/.test(before.replaceAll(/"[^"]*"|'[^']*'/g, ''))) continue;
    return [
      {
        ...told('`{{…}}` without quotes is a mapping in YAML', 'Put the whole text in quotes: `"… {{…}} …"`.'),
        place: { line, column: before.length + 1 },
      },
    ];
  }
  return undefined;
}

function faulty(...faults: readonly Fault[]): Source {
  return { value: undefined, faults, placeOf: () => undefined };
}

const FAULTS: Readonly<Partial<Record<string, Told>>> = {
  TAB_AS_INDENT: told('invalid YAML: a tab as indentation', 'Use spaces.'),
  BAD_INDENT: told('invalid YAML: inconsistent indentation', 'Align the keys of one mapping.'),
  MISSING_CHAR: told('invalid YAML: a closing quote or bracket is missing', 'Add it.'),
  MULTIPLE_DOCS: told('the file holds several YAML documents', 'Keep one, without `---`.'),
  TAG_RESOLVE_FAILED: told('YAML tags are not supported', 'Remove the tag.'),
  UNEXPECTED_TOKEN: told(
    'invalid YAML: unexpected character',
    'Check quotes and brackets; inside `{ }` and `[ ]`, write `"${…}"` with quotes.',
  ),
};

type PairOf = (map: YAMLMap, key: string) => Pair | undefined;

/** Finds the pairs of maps by their keys; each map is gone through once, however many of its keys are wrong. */
function pairs(): PairOf {
  const known = new Map<YAMLMap, ReadonlyMap<string, Pair>>();
  return (map, key) => {
    const byKey = known.get(map) ?? new Map(map.items.map((pair) => [String(isScalar(pair.key) ? pair.key.value : pair.key), pair]));
    known.set(map, byKey);
    return byKey.get(key);
  };
}

function placeIn({ contents }: Document, path: Path, pairOf: PairOf, place: (offset: number) => Place): Place | undefined {
  let node: unknown = contents;
  let offset = offsetOf(contents);
  for (const step of path) {
    let next: unknown;
    if (isMap(node)) {
      const pair = pairOf(node, String(step));
      next = pair?.value;
      if (isPair(pair)) offset = offsetOf(pair.key) ?? offset;
    } else if (isSeq(node)) {
      next = node.items[Number(step)];
      offset = offsetOf(next) ?? offset;
    }
    if (next === undefined) break;
    node = next;
  }
  return offset === undefined ? undefined : place(offset);
}

function offsetOf(node: unknown): number | undefined {
  return (node as Partial<Node> | null)?.range?.[0];
}
