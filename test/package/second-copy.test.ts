import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { nodesOf, parsed, type Source, sourcesOf } from './sources.js';

/** `instanceof` on our own classes that is right, by file and class, and why. What two copies do to each other: `.ci/check-copies.mjs`. */
const exempt: Readonly<Record<string, string>> = {
  'operators/kernel/machine/batch-machine.ts Batch': 'an entry of the queue that asks, and never handed out',
  'operators/kernel/machine/leave.ts Batch': 'an entry of the queue that asks, and never handed out',
  'operators/kernel/machine/batch-machine.ts ItemFailure': 'made by the machine while it reads an answer, and never handed out',
  'src/frontend/view-store.ts BrokenView': 'made by the store that asks, and never handed out',
  'src/cli/exit.ts FileError': 'the command is one bundle, and no module outside imports it',
  'src/journal/file-journal.ts FileError': 'made by the files of the journal that asks, and never handed out',
  'src/cli/exit.ts CliError': 'the command is one bundle, and no module outside imports it',
  'src/cli/inspect/html.ts Markup': 'the command is one bundle, and no module outside imports it',
  'src/cli/inspect/read-file.ts CliError': 'the command is one bundle, and no module outside imports it',
  'src/cli/inspect/read-file.ts RecordingError': 'the command is one bundle, and no module outside imports it',
  'src/cli/inspect/read-url.ts CliError': 'the command is one bundle, and no module outside imports it',
  'src/cli/run/run-outcome.ts AnswerError': 'the command is one bundle, and no module outside imports it',
  'src/adapters/fetch/from-event-stream.ts Ending': 'made by the stream that asks, and never handed out',
  'src/cli/run/conversation.ts AnswerError': 'the command is one bundle, and no module outside imports it',
  'src/cli/run/run-stages.ts AnswerError': 'the command is one bundle, and no module outside imports it',
};

const sources = sourcesOf('operators', 'src');
const ownClasses = new Set(sources.flatMap(({ file }) => nodesOf(file).flatMap((node) => (isNamedClass(node) ? [node.name.text] : []))));

function isNamedClass(node: ts.Node): node is ts.ClassLikeDeclaration & { readonly name: ts.Identifier } {
  return ts.isClassLike(node) && node.name !== undefined;
}

/** Each `… instanceof <class of ours>` and `isA(…, <class of ours>)` of a module, as `path class`. */
function ownInstanceofs({ path, file }: Source, own: ReadonlySet<string>): string[] {
  return nodesOf(file).flatMap((node) => {
    const asked = kindAsked(node)?.getText(file) ?? '';
    return own.has(asked) ? [`${path} ${asked}`] : [];
  });
}

function kindAsked(node: ts.Node): ts.Expression | undefined {
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.InstanceOfKeyword) return node.right;
  return ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'isA' ? node.arguments[1] : undefined;
}

const found = sources.flatMap((source) => ownInstanceofs(source, ownClasses));

describe('two copies of the package in one process', () => {
  it('never ask each other with `instanceof`: a class of one copy is unknown to the other', () => {
    expect(found.filter((place) => !(place in exempt))).toEqual([]);
  });

  it('have no exemption that nothing needs any more', () => {
    expect(Object.keys(exempt).filter((place) => !found.includes(place))).toEqual([]);
  });

  it('would be caught asking', () => {
    const source = parsed(
      'operators/some.ts',
      'class Own {}\nconst is = (x: unknown) => x instanceof Own || isA(x, Own) || x instanceof Error;',
    );
    expect(ownInstanceofs(source, new Set(['Own']))).toEqual(['operators/some.ts Own', 'operators/some.ts Own']);
    expect(ownClasses).toContain('FlowError');
  });
});
