import { resolve } from 'node:path';
import { check } from '../../operators/build.js';
import type { SharedStore } from '../../operators/index.js';
import { sharedStore } from '../../operators/index.js';
import { defaultFolder, openFolder } from './local/folder.js';
import { LocalClient } from './local/local-client.js';

/** @beta */
export interface LocalStoreOptions {
  /** What is shared, for example `'openai:prod'`: processes that pass the same name share limits. Any characters, at least one. */
  readonly name: string;
  /**
   * Where the processes meet: a folder of this user alone, which is created if it is not there. Pass it where processes of a user have different environments,
   * such as a service and a terminal.
   * @defaultValue `sluice` in `$XDG_RUNTIME_DIR`, else `sluice-<user id>` in the folder for temporary files
   */
  readonly folder?: string;
  /**
   * Most jobs at a time of all processes, a whole number >= 1, beside the `concurrency` of each account. A job holds its slot until it ends; the slots of a
   * process that has died or stopped are free again after about 5 s. @defaultValue Infinity
   */
  readonly concurrency?: number;
}

const NAME = 'localStore';

/**
 * A store of credit that all processes of one machine and one user share, with nothing to install: for `shared`, where several agents, commands or workers use one
 * account. The first process that needs it serves the others over a unix socket (a named pipe on Windows). When that process ends, or does not answer
 * for a second, another one takes over and continues with everything that was granted.
 *
 * - **Waits** while no process serves: usually a few milliseconds. A question without an answer after 2 s fails, and the limiter asks again.
 * - **Begins** with nothing saved up when no state is there, as after a restart of the machine. Windows of up to 10 minutes are then granted evenly
 *   until the first of them is over, because another process may have used the account before.
 * - **Keeps no process alive** except while it waits for an answer.
 * - **Access**: the user of the process. Folder, files and sockets have rights for no other user.
 *
 * Create it once for each name. It is for Node.js, and for one machine: processes in containers share it when they have the `folder` in common.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `name` or `folder` is not a non-empty string, `concurrency` is not a whole number >= 1 or
 * Infinity, or an option is unknown; and when the folder cannot be created, belongs to another user, is a link, can be used by other users, or has a path too
 * long for a socket.
 * @example
 * ```ts
 * import { createLimiter, perMinute, shared } from 'sluice/operators';
 * import { localStore } from 'sluice/local-store';
 *
 * // The same in each process:
 * const store = localStore({ name: 'openai:prod' });
 * const limiter = createLimiter({ rates: shared(store, [perMinute('tokens', 200_000)]) });
 * await limiter.runAsync(async () => 'answer', { cost: { tokens: 100 } }); // => 'answer'
 * ```
 * @see `memoryStore` for the limiters of one process and for tests.
 */
export function localStore(options: LocalStoreOptions): SharedStore {
  const { concurrency, folder, name } = check.options(
    NAME,
    options,
    { concurrency: Infinity },
    { concurrency: check.count, name: check.nonEmpty, folder: check.optional(check.nonEmpty) },
  );
  const common = folder === undefined ? defaultFolder() : resolve(folder);
  openFolder(NAME, name, common);
  return sharedStore(new LocalClient(() => openFolder(NAME, name, common)), { concurrency });
}
