#!/usr/bin/env node
import { errorCode } from '../journal/file-error.js';
import { runCommandLine } from './command-line.js';

// A pipe that nobody reads any more is no reason to stop what is under way.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error) => {
    if (errorCode(error) !== 'EPIPE') throw error;
  });

await runCommandLine(process, new URL('inspect-page.js', import.meta.url));
