import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Command } from 'commander';
import { variable } from '../edge/config/env.js';
import { CliError, EXIT, errorCode } from './exit.js';
import type { Host } from './host.js';
import { onInterrupt } from './interrupt.js';
import { port, positiveNumber, share, wholeNumber } from './options.js';
import { ownPackage } from './package-root.js';

interface ServeFlags {
  readonly port: number;
  readonly workers: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly apiKeyEnv?: string;
  readonly chat?: true;
  readonly chatSequences?: number;
  readonly chatThreads?: number;
  readonly faultSeed: number;
  readonly fault429: number;
  readonly fault5xx: number;
  readonly faultRetryAfterMs: number;
  readonly faultSlow: number;
  readonly faultSlowMs: number;
  readonly faultCut: number;
  readonly faultCutEvery: number;
  readonly faultCrash: number;
  readonly poisonSha256: readonly string[];
  readonly blame: boolean;
}

export function serveCommand(host: Host): Command {
  return new Command('serve')
    .description('start a local, OpenAI-compatible server on 127.0.0.1, answered by a real embeddings model')
    .option('--port <n>', '0 takes a free one', port, 8787)
    .option('--workers <n>', 'threads, each with its own copy of the model', wholeNumber(1), 2)
    .option('--requests-per-minute <n>', 'answer more with 429', positiveNumber)
    .option('--tokens-per-minute <n>', 'answer more with 429', positiveNumber)
    .option('--api-key-env <name>', 'environment variable with the key that requests must carry')
    .option('--chat', 'answer chat completions too; the model is installed first, see examples/model-server/chat')
    .option('--chat-sequences <n>', 'answers made at the same time (default: 2)', wholeNumber(1))
    .option('--chat-threads <n>', 'threads of the chat model; more than one pays on an idle machine only (default: 1)', wholeNumber(1))
    .option('--fault-seed <n>', 'which requests the faults meet', wholeNumber(0), 1)
    .option('--fault-429 <share>', 'share of requests answered with 429', share, 0)
    .option('--fault-5xx <share>', 'share of requests answered with 500, 502 or 503', share, 0)
    .option('--fault-retry-after-ms <n>', 'wait an injected 429 asks for', wholeNumber(0), 200)
    .option('--fault-slow <share>', 'share of requests held back', share, 0)
    .option('--fault-slow-ms <n>', 'how long they are held back', wholeNumber(0), 1000)
    .option('--fault-cut <n>', 'requests cut off half-way', wholeNumber(0), 0)
    .option('--fault-cut-every <n>', 'one request out of so many is cut', wholeNumber(1), 10)
    .option('--fault-crash <n>', 'texts that take their worker down', wholeNumber(0), 0)
    .option('--poison-sha256 <hash...>', 'SHA-256 of texts that are refused with 400', [])
    .option('--no-blame', 'do not say which text was refused')
    .action((flags: ServeFlags) => run(flags, host));
}

async function run(flags: ServeFlags, host: Host): Promise<void> {
  const startModelServer = await loadServer();
  const interrupts = onInterrupt(host, () => {
    host.stderr.write('stopping the server\n');
  });
  const stopped = new Promise((resolve) => {
    interrupts.stop.addEventListener('abort', resolve, { once: true });
  });
  try {
    const server = await start(startModelServer, flags, host);
    host.stdout.write(`listening on ${server.baseUrl}\n`);
    await stopped;
    await server.close();
  } finally {
    interrupts.dispose();
  }
}

/** As much as is used here of what `examples/model-server` offers, which checks its options itself. */
type StartModelServer = (options: Readonly<Record<string, unknown>>) => Promise<ModelServer>;

interface ModelServer {
  readonly baseUrl: string;
  close(): Promise<void>;
}

/** The server and its model (some 100 MB) live in the repository, not in the published package. */
async function loadServer(): Promise<StartModelServer> {
  const entry = join(ownPackage().folder, 'examples', 'model-server', 'index.mjs');
  if (!existsSync(entry)) {
    throw new CliError(
      EXIT.usage,
      `\`sluice serve\` needs the model server of the repository, and there is none at ${entry}; run it from a checkout`,
    );
  }
  try {
    const server = (await import(pathToFileURL(entry).href)) as { startModelServer: StartModelServer };
    return server.startModelServer;
  } catch (error) {
    if (errorCode(error) !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new CliError(
      EXIT.usage,
      `the model server cannot start, a package it needs is missing (${(error as Error).message}); run \`npm ci\``,
      error,
    );
  }
}

async function start(startModelServer: StartModelServer, flags: ServeFlags, { env }: Host): Promise<ModelServer> {
  try {
    return await startModelServer({
      port: flags.port,
      workers: flags.workers,
      ...(flags.requestsPerMinute !== undefined && { requestsPerMinute: flags.requestsPerMinute }),
      ...(flags.tokensPerMinute !== undefined && { tokensPerMinute: flags.tokensPerMinute }),
      ...(flags.apiKeyEnv !== undefined && { apiKey: keyFrom(flags.apiKeyEnv, env) }),
      chat: chatOptions(flags),
      faults: {
        seed: flags.faultSeed,
        rate429: flags.fault429,
        rate5xx: flags.fault5xx,
        retryAfterMs: flags.faultRetryAfterMs,
        slowRate: flags.faultSlow,
        slowMs: flags.faultSlowMs,
        cutSockets: flags.faultCut,
        cutEvery: flags.faultCutEvery,
        crashWorkers: flags.faultCrash,
        poisonSha256: flags.poisonSha256,
        blame: flags.blame,
      },
    });
  } catch (error) {
    if (errorCode(error) === 'EADDRINUSE') {
      throw new CliError(EXIT.usage, `port ${String(flags.port)} is taken; choose another with \`--port\`, or 0 for a free one`, error);
    }
    // Both name what is wrong in a sentence: an option, or a file of the model.
    if (error instanceof TypeError || (error as Error).name === 'ModelFilesError') {
      throw new CliError(EXIT.usage, (error as Error).message, error);
    }
    throw error;
  }
}

function chatOptions({ chat, chatSequences, chatThreads }: ServeFlags): false | Readonly<Record<string, number>> {
  const options = {
    ...(chatSequences !== undefined && { sequences: chatSequences }),
    ...(chatThreads !== undefined && { maxThreads: chatThreads }),
  };
  if (chat === true) return options;
  if (Object.keys(options).length === 0) return false;
  throw new CliError(EXIT.usage, '`--chat-sequences` and `--chat-threads` go with `--chat`');
}

function keyFrom(name: string, env: NodeJS.ProcessEnv): string {
  const key = variable(env, name);
  if (key === undefined || key === '') throw new CliError(EXIT.usage, `\`--api-key-env\`: the environment variable ${name} is not set`);
  return key;
}
