import { createRequire } from 'node:module';
import type { AST, RegExpParser as Parser } from '@eslint-community/regexpp';

// ESLint brings the parser along.
const { RegExpParser } = createRequire(createRequire(import.meta.url).resolve('eslint'))('@eslint-community/regexpp') as {
  readonly RegExpParser: new (options: { ecmaVersion: 2025 }) => Parser;
};

/** A text that is bad for a pattern: a beginning, something that is repeated up to the length, and an end. */
export interface Attack {
  readonly start: string;
  readonly pump: string;
  readonly end: string;
}

/** What makes a match fail behind a long run: nothing, signs that no pattern knows, and the line ends that `.` does not take. */
const ENDS = ['', '\u0001', '\n', '\u2028x'];
/** Bad for many a pattern, whatever is in it. */
const GENERAL = [' ', '\n', '\t \n', 'a', '0', '{', '"', '`', '```\n', '```json\n\n', '/', '=', '-', '\\', 'a b ', '1.1', ': '];
/** Enough to find what overlaps: the first characters of each class. */
const MOST_SAMPLES = 4;

export function attacksOn(pattern: RegExp): Attack[] {
  const ast = new RegExpParser({ ecmaVersion: 2025 }).parseLiteral(String(pattern));
  const flags = ast.flags.unicode || ast.flags.unicodeSets ? 'u' : '';
  const attacks = new Map<string, Attack>();
  const add = (start: string, pump: string, end: string): void => {
    if (pump !== '') attacks.set(JSON.stringify([start, pump, end]), { start, pump, end });
  };
  const addAll = (start: string, pump: string): void => {
    for (const end of ENDS) add(start, pump, end);
  };
  for (const pump of GENERAL) add('', pump, '\u0001');
  const whole = samplesOf(ast.pattern, pattern)[0] ?? '';
  addAll('', whole);
  // Almost a match, over and over.
  addAll('', whole.slice(0, -1));
  for (const alternative of ast.pattern.alternatives) walk(alternative, '');
  return [...attacks.values()];

  function walk({ elements }: AST.Alternative, before: string): void {
    let start = before;
    elements.forEach((element, i) => {
      if (element.type === 'Quantifier') {
        const rest = elements.slice(i + 1);
        const pumps = unique([element.element, ...rest.slice(0, 3)].flatMap((one) => samplesOf(one, pattern)));
        for (const pump of pumps) {
          addAll(start, pump);
          // From the very beginning: what is not anchored begins anew at each of them.
          addAll('', `${start}${pump}`);
        }
        const [first = '', second = ''] = pumps;
        addAll(start, first + second);
        inside(element.element, start);
        if (element.min === 0) return;
      } else inside(element, start);
      start += samplesOf(element, pattern)[0] ?? '';
    });
  }

  function inside(element: AST.Node, start: string): void {
    if ('alternatives' in element) for (const one of element.alternatives) if (one.type === 'Alternative') walk(one, start);
  }

  function samplesOf(node: AST.Node, own: RegExp): string[] {
    switch (node.type) {
      case 'Pattern':
      case 'Group':
      case 'CapturingGroup':
        return unique(node.alternatives.flatMap((one) => samplesOf(one, own).slice(0, 1)));
      case 'Alternative':
        return [node.elements.map((one) => samplesOf(one, own)[0] ?? '').join('')];
      case 'Quantifier':
        return samplesOf(node.element, own).map((sample) => sample.repeat(Math.max(1, node.min)));
      case 'Character':
        return [String.fromCodePoint(node.value)];
      case 'CharacterClass':
      case 'CharacterSet':
      case 'ExpressionCharacterClass':
        return charactersIn(node.raw, flags);
      default:
        return [];
    }
  }
}

/** Some characters of a class, of each sort. */
function charactersIn(raw: string, flags: string): string[] {
  const one = new RegExp(`^${raw}$`, flags);
  const sorts = ['a', 'A', '0', ' ', '\n', '-', '.', '/', '`', '~', '{', '"', '\u00e4', '\ud800', '\udc00', '\u2028'];
  const found = sorts.filter((character) => one.test(character));
  if (found.length > 0) return found.slice(0, MOST_SAMPLES);
  const rest = Array.from({ length: 0x2000 }, (_, code) => String.fromCharCode(code)).find((character) => one.test(character));
  return rest === undefined ? [] : [rest];
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)].filter((text) => text !== '');
}

export function textOf({ start, pump, end }: Attack, length: number): string {
  return `${start}${pump.repeat(Math.max(1, Math.floor(length / pump.length)))}${end}`;
}
