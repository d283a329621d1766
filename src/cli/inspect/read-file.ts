import type { FileHandle } from 'node:fs/promises';
import { open, stat } from 'node:fs/promises';
import type { FlowEvent } from '../../../operators/index.js';
import type { Recording } from '../../inspector/export-recording.js';
import { importRecording, RecordingError } from '../../inspector/recording.js';
import { errorCode } from '../../journal/file-error.js';
import { LineSplitter } from '../../journal/lines.js';
import { CliError, EXIT } from '../exit.js';
import { eventOfLine, MAX_LINE_BYTES, type News, pause, TOO_LONG } from './news.js';

const PIECE_BYTES = 1 << 18;
const LOOK_EVERY_MS = 200;
/** An export holds some thousand events. */
const MAX_EXPORT_BYTES = 64 << 20;
const EXPORT = /^\s*\{\s*"format"\s*:\s*"sluice-recording"/;

/**
 * Reads a file of events, one JSON object a line, or an export of the inspector. `follow`: goes on when the file grows, and begins anew when it is cut
 * or replaced.
 *
 * @throws CliError (exit code 2) when there is no such file, or for the first line that is no event of those that were there at the beginning.
 */
export async function* readFileNews(
  path: string,
  shown: string,
  follow: boolean,
  signal: AbortSignal,
): AsyncGenerator<News, void, undefined> {
  let file = await openFile(path, shown);
  try {
    const start = await readPiece(file, 0);
    if (EXPORT.test(start.subarray(0, 200).toString('utf8'))) {
      yield { type: 'recording', recording: await readExport(file, shown) };
      yield { type: 'caughtUp' };
      yield { type: 'ended' };
      return;
    }
    for (let isFirst = true; ; isFirst = false) {
      yield* readLinesOf(file, path, shown, follow, isFirst, signal);
      if (signal.aborted || !follow) break;
      await file.close();
      const again = await openAgain(path, shown, signal);
      if (again === undefined) break;
      file = again;
      yield { type: 'restarted' };
    }
    yield { type: 'ended' };
  } finally {
    await file.close();
  }
}

/** Ends when the file was cut or replaced; at its end unless `follow`. */
async function* readLinesOf(
  file: FileHandle,
  path: string,
  shown: string,
  follow: boolean,
  isFirst: boolean,
  signal: AbortSignal,
): AsyncGenerator<News, void, undefined> {
  const splitter = new LineSplitter();
  let position = 0;
  let isNew = isFirst;
  /** Number of the last line that was taken before its line feed came. */
  let taken = 0;
  const tell = (fault: string): News => {
    if (isNew) throw new CliError(EXIT.usage, `\`${shown}\` ${fault}`);
    return { type: 'fault', fault };
  };
  while (!signal.aborted) {
    const piece = await readPiece(file, position);
    position += piece.length;
    const events: FlowEvent[] = [];
    for (const { number, text } of splitter.push(piece)) {
      if (number === taken) continue;
      const event = eventOfLine(text);
      if (typeof event === 'string') yield tell(`line ${String(number)} ${event}`);
      else if (event !== undefined) events.push(event);
    }
    if (splitter.openBytes > MAX_LINE_BYTES) {
      throw new CliError(EXIT.usage, `\`${shown}\` line ${String(splitter.number + 1)} ${TOO_LONG}`);
    }
    if (events.length > 0) yield { type: 'events', events };
    if (piece.length > 0) continue;
    // A last line may have no line feed, because nobody writes one, or not yet.
    const last = taken > splitter.number ? undefined : eventOfLine(splitter.open);
    if (typeof last === 'object') {
      taken = splitter.number + 1;
      yield { type: 'events', events: [last] };
    }
    if (isNew) yield { type: 'caughtUp' };
    isNew = false;
    if (!follow) {
      // Of a process that was killed while it wrote.
      if (typeof last === 'string') yield tell(`line ${String(splitter.number + 1)} ${last}`);
      return;
    }
    await pause(LOOK_EVERY_MS, signal);
    if (await isAnother(file, path, position)) return;
  }
}

async function openFile(path: string, shown: string): Promise<FileHandle> {
  try {
    // Before it is opened: whoever opens a pipe waits for somebody to write.
    if ((await stat(path)).isFile()) return await open(path, 'r');
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') throw new CliError(EXIT.usage, `there is no file \`${shown}\``, error);
    throw new CliError(EXIT.usage, `cannot read \`${shown}\` (${code ?? 'unknown'})`, error);
  }
  throw new CliError(EXIT.usage, `\`${shown}\` is no file that can be read again; give a file of events`);
}

/** Where one was replaced, it may be gone for a moment. Undefined when the signal aborts. */
async function openAgain(path: string, shown: string, signal: AbortSignal): Promise<FileHandle | undefined> {
  while (!signal.aborted) {
    try {
      return await openFile(path, shown);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      await pause(LOOK_EVERY_MS, signal);
    }
  }
  return undefined;
}

async function readPiece(file: FileHandle, position: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(PIECE_BYTES), 0, PIECE_BYTES, position);
  return buffer.subarray(0, bytesRead);
}

async function readExport(file: FileHandle, shown: string): Promise<Recording> {
  const { size } = await file.stat();
  if (size > MAX_EXPORT_BYTES) throw new CliError(EXIT.usage, `\`${shown}\` is larger than any export of the inspector`);
  const bytes = Buffer.alloc(size);
  await file.read(bytes, 0, size, 0);
  try {
    return importRecording(bytes.toString('utf8').trim());
  } catch (error) {
    if (error instanceof RecordingError) throw new CliError(EXIT.usage, `\`${shown}\`: ${error.message}`, error);
    throw error;
  }
}

/** Was the file cut, or does another one stand in its place? One that is gone may come back. */
async function isAnother(file: FileHandle, path: string, position: number): Promise<boolean> {
  try {
    const [ours, there] = await Promise.all([file.stat(), stat(path)]);
    return ours.ino !== there.ino || there.size < position;
  } catch {
    return false;
  }
}
