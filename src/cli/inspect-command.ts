import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Command } from 'commander';
import type { FlowEvent } from '../../operators/index.js';
import { exportRecording } from '../inspector/export-recording.js';
import { FlowModel } from '../inspector/flow-model.js';
import { replay } from '../inspector/recording.js';
import { onDisk } from '../journal/file-error.js';
import { CliError, EXIT } from './exit.js';
import { type Host, pathOf } from './host.js';
import { Digest } from './inspect/digest.js';
import { Feed } from './inspect/feed.js';
import { html, type MadePage, makePage } from './inspect/html.js';
import type { News } from './inspect/news.js';
import { readFileNews } from './inspect/read-file.js';
import { readUrlNews } from './inspect/read-url.js';
import { MAX_REPORT_BYTES, makeReport, REPORT_MARK } from './inspect/report.js';
import { type Served, servePage } from './inspect/server.js';
import { STYLE } from './inspect/style.js';
import { onInterrupt } from './interrupt.js';
import { port } from './options.js';
import { refuseForeignFile, writeOwnFile } from './own-file.js';
import { ownPackage } from './package-root.js';

interface InspectFlags {
  readonly port?: number;
  readonly html?: string;
}

/** Where events come from. */
interface Source {
  readonly isStream: boolean;
  /** As the user knows it, without what may be secret in an address. */
  readonly shown: string;
  read(follow: boolean, signal: AbortSignal): AsyncGenerator<News, void, undefined>;
}

interface Surroundings {
  readonly host: Host;
  /** Stands beside the command: the inspector with all that it needs, for a browser. */
  readonly page: URL;
}

/** @param page file with what its pages run. */
export function inspectCommand(host: Host, page: URL): Command {
  return new Command('inspect')
    .description('show what a pipeline did, or does, in a page on 127.0.0.1')
    .argument(
      '<events>',
      'a file of events (one JSON object a line, it may grow), an export of the inspector, or the address of a stream of events',
    )
    .option('--port <n>', 'default: a free one', port)
    .option('--html <file>', 'write a page that holds everything it needs, and end')
    .action((given: string, flags: InspectFlags) => run(given, flags, { host, page }));
}

async function run(given: string, flags: InspectFlags, surroundings: Surroundings): Promise<void> {
  if (flags.html !== undefined && flags.port !== undefined)
    throw new CliError(EXIT.usage, '`--html` serves nothing, so there is no `--port`');
  const { host } = surroundings;
  const source = sourceOf(given, host);
  const interrupts = onInterrupt(host, () => {
    host.stderr.write('stopping\n');
  });
  try {
    if (flags.html === undefined) await serve(source, flags.port ?? 0, interrupts.stop, surroundings);
    else await report(source, flags.html, interrupts.stop, surroundings);
  } finally {
    interrupts.dispose();
  }
}

function sourceOf(given: string, host: Host): Source {
  if (!/^[a-z][a-z\d+.-]*:\/\//i.test(given)) {
    return { isStream: false, shown: given, read: (follow, signal) => readFileNews(pathOf(host, given), given, follow, signal) };
  }
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw new CliError(EXIT.usage, 'an address begins with http:// or https://');
  const shown = `${url.origin}${url.pathname}`;
  return { isStream: true, shown, read: (follow, signal) => readUrlNews(url, shown, follow, signal) };
}

async function serve(source: Source, at: number, stop: AbortSignal, { host, page }: Surroundings): Promise<void> {
  const feed = new Feed(basename(source.shown));
  const news = source.read(true, stop);
  let served: Served | undefined;
  try {
    for (let next = await news.next(); next.done !== true; next = await news.next()) {
      warn(source, next.value, feed.model, host);
      feed.take(next.value);
      // What is wrong with the file shows before there is an address to look at.
      if (next.value.type !== 'caughtUp') continue;
      served = await servePage(at, watchPage(source.shown, page), feed);
      host.stdout.write(`inspector of ${source.shown} on ${served.url}\n`);
    }
    await aborted(stop);
  } finally {
    await news.return();
    feed.close();
    await served?.close();
  }
}

function watchPage(shown: string, page: URL): MadePage {
  const title = basename(shown);
  const body = html`<main>
<h1><bdi>${title}</bdi></h1>
<p id="status" role="status">connecting</p>
<p><button id="play" type="button">Play it from the start</button></p>
<div id="inspector"></div>
<noscript><p>This page draws with a script.</p></noscript>
</main>`;
  return makePage({
    mark: '<!doctype html>',
    title: `${title}: sluice inspect`,
    style: STYLE,
    body,
    script: scriptIn(page),
    asksItsServer: true,
  });
}

async function report(source: Source, file: string, stop: AbortSignal, { host, page }: Surroundings): Promise<void> {
  await refuseForeignFile(pathOf(host, file), file, REPORT_MARK, 'a report of `sluice inspect`');
  if (source.isStream) host.stderr.write(`reading ${source.shown} to its end; interrupt to write what has come until then\n`);
  const digest = new Digest();
  let model = new FlowModel();
  const add = (events: readonly FlowEvent[], isCounted = true): void => {
    for (const event of events) {
      digest.add(event);
      if (isCounted) model.add(event);
    }
  };
  for await (const news of source.read(false, stop)) {
    warn(source, news, model, host);
    if (news.type === 'events') add(news.events);
    if (news.type !== 'recording') continue;
    model = replay(news.recording);
    add(news.recording.events, false);
  }
  if (stop.aborted && !source.isStream)
    throw new CliError(EXIT.interrupted, `\`${source.shown}\` was not read to its end, and nothing is written`);
  if (digest.events === 0) throw new CliError(EXIT.usage, `there are no events in \`${source.shown}\``);
  const text = reportOf(source, digest, model, page);
  await onDisk(`write \`${file}\``, () => writeOwnFile(pathOf(host, file), text));
  host.stdout.write(`wrote ${file}: ${String(digest.calls)} calls of ${source.shown}\n`);
}

/** With as many of the last events as there is room for. */
function reportOf(source: Source, digest: Digest, model: FlowModel, page: URL): string {
  const { counters, lanes } = model;
  const base = { title: basename(source.shown), version: ownPackage().version, digest, counters, lanes, script: scriptIn(page) };
  const text = exportRecording(model, base.title);
  const whole = makeReport({ ...base, recording: { text, events: model.events.length } });
  return Buffer.byteLength(whole) <= MAX_REPORT_BYTES ? whole : makeReport({ ...base, recording: undefined });
}

/** Tells of lines that are no events; where nothing else came, it is something else than a stream of events. */
function warn({ shown }: Source, news: News, { events }: FlowModel, host: Host): void {
  if (news.type !== 'fault') return;
  if (events.length === 0) throw new CliError(EXIT.usage, `\`${shown}\` ${news.fault}`);
  host.stderr.write(`sluice: \`${shown}\` ${news.fault}\n`);
}

function scriptIn(page: URL): string {
  return readFileSync(page, 'utf8');
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener(
      'abort',
      () => {
        resolve();
      },
      { once: true },
    );
  });
}
