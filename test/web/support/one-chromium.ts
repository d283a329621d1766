import { chromium } from 'playwright-core';
import { BROWSER, findChromium, LAUNCH } from './browser.js';

/** Runs before the first page, and not at all without one: all files visit one Chromium, each in profiles of its own. To start it takes two seconds of a core. */
export async function setup(): Promise<() => Promise<void>> {
  const server = await chromium.launchServer({ executablePath: findChromium(), ...LAUNCH });
  process.env[BROWSER] = server.wsEndpoint();
  return () => server.close();
}
