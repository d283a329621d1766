import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import type { Browser, BrowserContext, CDPSession, Page } from 'playwright-core';
import { chromium } from 'playwright-core';
import type { BundleOptions } from './bundle.js';
import { bundlePage } from './bundle.js';

export interface WebPage {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly devtools: CDPSession;
  /** Errors of the console, and uncaught errors. */
  readonly errors: string[];
}

/** What a page finds in `location.search`. */
export type Query = Readonly<Record<string, string | number>>;

export interface Web {
  /**
   * Opens a file of `pages/` in a tab and a profile of its own, and waits until it has run. What it finds in `location.search` is `query`.
   * The tab is closed with `close`, or by the test.
   */
  open(file: string, query?: Query, options?: BundleOptions): Promise<WebPage>;
  /** The same in a tab that is there, which costs much less; its errors are forgotten. */
  show(tab: WebPage, file: string, query?: Query, options?: BundleOptions): Promise<void>;
  /** Opens an address in a tab and a profile of its own. */
  visit(url: string): Promise<WebPage>;
  close(): Promise<void>;
}

/** The path of a Chromium; installs one if it has to and may. */
export function findChromium(): string {
  const script = resolve(import.meta.dirname, '../../../.ci/chromium.mjs');
  return execFileSync(process.execPath, [script], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
}

/** Names the Chromium that is running already, where one is: `one-chromium.ts`. */
export const BROWSER = 'SLUICE_BROWSER';

export const LAUNCH = { timeout: 60_000, args: ['--disable-gpu', '--js-flags=--expose-gc', '--enable-precise-memory-info'] };

/** A Chromium without a window, and a server of pages on 127.0.0.1. */
export async function startWeb(): Promise<Web> {
  const bundles = new Map<string, Promise<string>>();
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const bundle = bundles.get(pathname.slice(1));
    if (bundle === undefined) {
      response.writeHead(200, { 'content-type': 'text/html' }).end(html(pathname));
      return;
    }
    void bundle.then((code) => response.writeHead(200, { 'content-type': 'text/javascript' }).end(code));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  const running = process.env[BROWSER];
  const browser = await (running === undefined
    ? chromium.launch({ executablePath: findChromium(), ...LAUNCH })
    : chromium.connect(running, { timeout: LAUNCH.timeout }));

  const visit = async (url: string): Promise<WebPage> => {
    const opened = await openPage(browser);
    await opened.page.goto(url, { waitUntil: 'load' });
    return opened;
  };

  const addressOf = async (file: string, query: Query = {}, options: BundleOptions = {}): Promise<string> => {
    const name = `${options.mode ?? 'production'}/${options.isOlder ? 'older' : 'newest'}/${file}.js`;
    if (!bundles.has(name)) bundles.set(name, bundlePage(file, options));
    await bundles.get(name);
    const search = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, String(value)]));
    return `http://127.0.0.1:${port}/page/${name}?${search.toString()}`;
  };

  return {
    visit,
    open: async (...what) => visit(await addressOf(...what)),
    show: async ({ page, errors }, ...what) => {
      await page.goto(await addressOf(...what), { waitUntil: 'load' });
      errors.length = 0;
    },
    close: async () => {
      await browser.close();
      await new Promise<void>((closed) => {
        server.close(() => {
          closed();
        });
        server.closeAllConnections();
      });
    },
  };
}

async function openPage(browser: Browser): Promise<WebPage> {
  const context = await browser.newContext();
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(String(error)));
  return { page, context, devtools: await context.newCDPSession(page), errors };
}

/** `/page/<bundle>` shows that bundle. */
function html(pathname: string): string {
  return `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><div id="root"></div>
<script type="module" src="${pathname.replace(/^\/page/, '')}"></script>`;
}

/** Waits until `ask` says yes; fails with what it was waiting for. */
export async function until(what: string, ask: () => boolean | Promise<boolean>, limitMs = 20_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await ask())) {
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
