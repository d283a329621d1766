import { appendFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { fileJournal } from '../../src/journal/file-journal.js';
import { createStages } from '../../src/pipelines/create-stages.js';

// Takes jobs through a journal, and notes each effect in a file. Kills itself after so many of them; 0 = never.
const [path = '', effects = '', jobs = '', killAfter = ''] = process.argv.slice(2);
let made = 0;

const journal = await fileJournal(path);
const send = async (job: string): Promise<string> => {
  await setImmediate();
  appendFileSync(effects, `${job}\n`);
  made += 1;
  if (made === Number(killAfter)) process.kill(process.pid, 'SIGKILL');
  return job.toUpperCase();
};
const queue = createStages([{ name: 'send', work: send }], { journal, id: (job) => job, batches: { concurrency: 4 } });
const done: string[] = [];
await queue.run(Array.from({ length: Number(jobs) }, (_, i) => `job-${String(i)}`)).forEach((result) => {
  if (result.type === 'document') done.push(`${result.documentId} ${result.status}`);
});
await journal.close();
console.log(JSON.stringify({ made, done }));
