#!/usr/bin/env node
import { runCommandLine } from './command-line.js';
import { errorCode } from './exit.js';

// A pipe that nobody reads any more is no reason to stop what is under way.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error) => {
    if (errorCode(error) !== 'EPIPE') throw error;
  });

await runCommandLine(process, new URL('inspect-page.js', import.meta.url));
