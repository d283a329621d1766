// Embeds 5,000 texts against a provider on this machine that limits requests and tokens, and refuses ten of the texts.
// Run: npx tsx examples/embedding-job/run.ts
import { embedAll, embedAllInFewCalls } from './job.js';
import { startProvider } from './provider.js';
import { makeTexts } from './texts.js';

const texts = makeTexts();
for (const job of [embedAll, embedAllInFewCalls]) {
  const provider = await startProvider();
  try {
    const startMs = performance.now();
    const { vectors, refused } = await job(provider.baseUrl, texts);
    const seconds = ((performance.now() - startMs) / 1000).toFixed(2);
    const { calls, throttled } = provider.counts;
    console.log(
      `${job.name}: ${vectors.size} vectors, ${refused.size} texts refused, ${calls} calls, ${throttled} of them 429, ${seconds} s`,
    );
  } finally {
    await provider.stop();
  }
}
