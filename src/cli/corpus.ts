import { type Chunk, chunkText } from './chunks.js';
import { findFiles, readDocument, readFileList, type SkippedFile } from './documents.js';
import { CliError, EXIT } from './exit.js';

export interface CorpusOptions {
  readonly paths: readonly string[];
  readonly filesFrom: string | undefined;
  readonly cwd: string;
  /** Absolute paths never taken. */
  readonly exclude: readonly string[];
  readonly maxFileBytes: number;
  readonly maxChunkTokens: number;
}

export interface Corpus {
  /** In the order of file and line. */
  readonly chunks: readonly Chunk[];
  readonly skipped: readonly SkippedFile[];
}

/**
 * Reads all documents and cuts them into passages. The whole corpus is held in memory, as the index is while it is written.
 *
 * @throws CliError (exit code 2) when a path does not exist, or none of the files holds text.
 */
export async function readCorpus(options: CorpusOptions): Promise<Corpus> {
  const { filesFrom, cwd, exclude } = options;
  const listed = filesFrom === undefined ? [] : await readFileList(filesFrom, cwd);
  const paths = [...options.paths, ...listed];
  if (paths.length === 0) throw new CliError(EXIT.usage, 'nothing to index: name files or folders, or a list of them with `--files-from`');
  const found = await findFiles(paths, { cwd, exclude });
  const chunks: Chunk[] = [];
  const skipped = [...found.skipped];
  for (const file of found.files) {
    const document = await readDocument(file, options.maxFileBytes);
    if ('reason' in document) skipped.push({ file: file.name, reason: document.reason });
    else for (const chunk of chunkText(file.name, document.text, { maxTokens: options.maxChunkTokens })) chunks.push(chunk);
  }
  if (chunks.length === 0) throw new CliError(EXIT.usage, nothingToIndex(options.paths, filesFrom, skipped));
  return { chunks, skipped };
}

function nothingToIndex(paths: readonly string[], filesFrom: string | undefined, skipped: readonly SkippedFile[]): string {
  const where = [...paths, ...(filesFrom === undefined ? [] : [`the list ${filesFrom}`])].join(', ');
  const reasons = skipped.map(({ file, reason }) => `${file} (${reason})`).join(', ');
  return `nothing to index in ${where}: ${reasons === '' ? 'no files found' : `skipped ${reasons}`}`;
}
