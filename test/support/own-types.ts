import { join, resolve } from 'node:path';
import ts from 'typescript';

const root = resolve(import.meta.dirname, '../..');

/**
 * Files of ours with their types. Of packages only those that are named: the declarations of all take ten times as long to read.
 *
 * @param written - texts of files that are not on the disk, by their paths
 */
export function programOfOwn(
  files: readonly string[],
  packages: readonly string[] = [],
  written: ReadonlyMap<string, string> = new Map(),
): ts.Program {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as { readonly config: object };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const own = { ...options, noEmit: true, types: [], lib: ['lib.es2023.d.ts'] };
  const host = ts.createCompilerHost(own);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => written.has(path) || fileExists.call(host, path);
  host.getSourceFile = (path, how, ...more) => {
    const text = written.get(path);
    return text === undefined ? getSourceFile.call(host, path, how, ...more) : ts.createSourceFile(path, text, how);
  };
  const isRead = (name: string): boolean => name.startsWith('.') || packages.includes(name);
  host.resolveModuleNameLiterals = (names, from) =>
    names.map(({ text }) => ({ resolvedModule: isRead(text) ? ts.resolveModuleName(text, from, own, host).resolvedModule : undefined }));
  return ts.createProgram([...files, join(root, 'operators/platform.d.ts')], own, host);
}
