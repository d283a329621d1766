import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { parsed, type Source, sourcesOf } from './sources.js';

/** What stands at the top of a module, could be changed and is right all the same, by file and name, and why. */
const exempt: Readonly<Record<string, string>> = {
  'operators/options/events.ts instances':
    'numbers what tells events, so that a listener of several can keep them apart; no two copies need to agree',
  'operators/shell/streams/demand.ts reader': 'set while one subscribes on behalf of a reader, and put back before that returns',
  'operators/shell/calls/report.ts thrown':
    'set while a consumer leaves, and put back before that returns; a copy that does not see it reports the error',
  'src/adapters/support/mcp-watch.ts WATCHES': 'says what one copy has put around a transport; a second copy puts its own around that',
  'src/adapters/support/mcp-watch.ts ASKED': 'marks errors of calls that this copy has made',
  'src/adapters/support/relayed-signal.ts GROUPS': 'one listener per signal and copy; a second copy only adds one more',
  'src/tokenizers/token-weights.ts kinds': 'a table made on first use, and only read afterwards',
  'operators/shell/time/pace.ts waiting':
    'callbacks that wait for a frame, until it comes or they are stopped; two copies only share no frame',
  'operators/shell/time/pace.ts frames': 'tells one frame from the next, for the set above',
  'src/adapters/support/when-collected.ts registry': 'made on first use, and only told what to call: callers share nothing by it',
  'src/tokenizers/gpt.ts PLAIN_TEXT': 'the tokenizer wants a `Set`, and only reads it',
};

const CONTAINERS = new Set(['Map', 'Set', 'WeakMap', 'WeakSet', 'Array']);
const READ_ONLY_TYPE = /^(readonly |Readonly<|ReadonlyMap<|ReadonlySet<|ReadonlyArray<)/;

/** State at the top of a module: variables that can be assigned again, and containers that can be written to. */
function stateOf({ path, file }: Source): string[] {
  return file.statements.flatMap((statement) => {
    if (!ts.isVariableStatement(statement)) return [];
    const { declarationList } = statement;
    const isConst = (declarationList.flags & ts.NodeFlags.Const) !== 0;
    return declarationList.declarations
      .filter(({ type, initializer }) => !isConst || (initializer !== undefined && isOpen(initializer, type)))
      .map(({ name }) => `${path} ${name.getText(file)}`);
  });
}

/** Can something be put into the value of this expression, as far as its type says? */
function isOpen(value: ts.Expression, type: ts.TypeNode | undefined): boolean {
  if (type !== undefined && READ_ONLY_TYPE.test(type.getText())) return false;
  if (ts.isParenthesizedExpression(value) || ts.isSatisfiesExpression(value)) return isOpen(value.expression, type);
  if (ts.isAsExpression(value)) return !isConstAssertion(value) && isOpen(value.expression, value.type);
  if (ts.isNewExpression(value)) return CONTAINERS.has(value.expression.getText());
  if (ts.isCallExpression(value)) return isOpenCall(value);
  return ts.isArrayLiteralExpression(value) || (ts.isObjectLiteralExpression(value) && value.properties.some(hasOpenValue));
}

/** `(() => […])()` hands out what its body makes; any other function answers for itself. */
function isOpenCall({ expression }: ts.CallExpression): boolean {
  const made = ts.isParenthesizedExpression(expression) ? expression.expression : undefined;
  return made !== undefined && ts.isArrowFunction(made) && !ts.isBlock(made.body) && isOpen(made.body, made.type);
}

function hasOpenValue(property: ts.ObjectLiteralElementLike): boolean {
  return ts.isPropertyAssignment(property) && isOpen(property.initializer, undefined);
}

function isConstAssertion({ type }: ts.AsExpression): boolean {
  return ts.isTypeReferenceNode(type) && type.typeName.getText() === 'const';
}

const states = sourcesOf('operators', 'src').flatMap(stateOf);

describe('the modules of the package', () => {
  it('keep no state of their own, which two copies would not share and two users would', () => {
    expect(states.filter((place) => !(place in exempt))).toEqual([]);
  });

  it('have no exemption that nothing needs any more', () => {
    expect(Object.keys(exempt).filter((place) => !states.includes(place))).toEqual([]);
  });

  it.each([
    'let count = 0;',
    'var count = 0;',
    'const cache = new Map<string, number>();',
    'export const cache = new WeakMap();',
    'const list = [1, 2];',
    'const list: number[] = [];',
    'const table = { list: [] };',
    'const list = (() => [1])();',
  ])('would be caught with %s', (text) => {
    expect(stateOf(parsed('operators/some.ts', text))).toHaveLength(1);
  });

  it.each([
    'const LIMIT = 10;',
    'const NAMES = ["a"] as const;',
    'const NAMES = ["a"] as const satisfies readonly string[];',
    'const CODES: ReadonlySet<string> = new Set(["a"]);',
    'const NAMES: readonly string[] = ["a"];',
    'function f() { let count = 0; return count; }',
  ])('may hold %s', (text) => {
    expect(stateOf(parsed('operators/some.ts', text))).toEqual([]);
  });
});
