import { basename } from 'node:path';
import { readDocument, walkFolder } from '../documents.js';
import { type BadRow, badRow, keyOf, type Row, type RowSource } from './row.js';

/**
 * The files of a folder and of those inside it, each a row with its `path` inside the folder, its `name` and its `text`. What is no text stands
 * among the failures.
 */
export class FolderRows implements RowSource {
  readonly fields = ['path', 'name', 'text'];
  readonly #folder: string;
  readonly #exclude: ReadonlySet<string>;
  #files = 0;
  #read = 0;

  /** @param exclude what the run itself writes: absolute paths, of folders without links. */
  constructor(folder: string, exclude: ReadonlySet<string>) {
    this.#folder = folder;
    this.#exclude = exclude;
  }

  async *rows(): AsyncGenerator<Row | BadRow, void, undefined> {
    // Names alone, to say later how far it is.
    for await (const _file of walkFolder(this.#folder, this.#exclude)) this.#files += 1;
    for await (const { path, name } of walkFolder(this.#folder, this.#exclude)) {
      this.#read += 1;
      const document = await readDocument({ path, name });
      if ('reason' in document) yield badRow(this.#read, name, document.reason, document.reason);
      else {
        const fields = { path: name, name: basename(name), text: document.text };
        yield { number: this.#read, id: name, key: keyOf(name, document.text), fields };
      }
    }
  }

  get count(): number | undefined {
    return this.#files === 0 ? undefined : this.#files;
  }

  share(): number {
    return this.#files === 0 ? 0 : Math.min(1, this.#read / this.#files);
  }
}
