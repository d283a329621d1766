import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';

const project = resolve(import.meta.dirname, '../..');

export interface Source {
  /** From the root of the project, with forward slashes. */
  readonly path: string;
  readonly file: ts.SourceFile;
}

/** Every module in these folders, parsed. */
export function sourcesOf(...folders: readonly string[]): Source[] {
  return folders.flatMap((folder) =>
    readdirSync(join(project, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
      .sort()
      .map((path) => parsed(path, readFileSync(join(project, path), 'utf8'))),
  );
}

export function parsed(path: string, text: string): Source {
  return { path, file: ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true) };
}

/** Every node of a module, from the outside in. */
export function nodesOf(node: ts.Node): ts.Node[] {
  return [node, ...childrenOf(node).flatMap(nodesOf)];
}

function childrenOf(node: ts.Node): ts.Node[] {
  const children: ts.Node[] = [];
  node.forEachChild((child) => {
    children.push(child);
  });
  return children;
}
