import { beforeAll, describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { Digest } from '../../src/cli/inspect/digest.js';
import { MAX_REPORT_BYTES, makeReport, type ReportOptions } from '../../src/cli/inspect/report.js';
import { exportRecording } from '../../src/inspector/export-recording.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import { importRecording, replay } from '../../src/inspector/recording.js';
import { sized } from '../support/deep.js';
import { recordedRun } from '../support/recorded-run.js';

/** As large as the real one, and more. */
const SCRIPT = `/* ${'x'.repeat(60_000)} */`;

function reportOf(
  events: readonly FlowEvent[],
  options: Partial<ReportOptions> = {},
): { readonly page: string; readonly model: FlowModel; readonly digest: Digest } {
  const digest = new Digest();
  const model = new FlowModel();
  for (const event of events) {
    digest.add(event);
    model.add(event);
  }
  const { counters, lanes } = model;
  const recording = { text: exportRecording(model), events: model.events.length };
  const page = makeReport({ title: 'run.jsonl', version: '1.0.0', digest, counters, lanes, recording, script: SCRIPT, ...options });
  return { page, model, digest };
}

/** What stands beside a term in the list of numbers. */
const numberOf = (page: string, term: string): string | undefined => new RegExp(`<dt>${term}</dt><dd>([^<]*)</dd>`).exec(page)?.[1];
const recordingIn = (page: string): string => /<script type="application\/json" id="recording">(.*?)<\/script>/s.exec(page)![1]!;

describe('a report of more calls than are drawn', () => {
  let events: readonly FlowEvent[];
  beforeAll(() => {
    events = recordedRun({ items: sized(10_500, 27_000), maxSize: sized(1, 2), throttledEvery: 9, poisoned: [5, 77, 10_000] });
  }, 60_000);

  it('says that it is aggregated, has the numbers of all of them, and at most 2 MB', () => {
    const { page, model, digest } = reportOf(events);
    expect(events.length).toBeGreaterThan(sized(40_000, 100_000));
    expect(digest.calls).toBeGreaterThan(10_000);
    expect(page).toMatch(/Aggregated: there were [\d,]+ calls, more than are drawn one by one/);
    expect(Buffer.byteLength(page)).toBeLessThan(MAX_REPORT_BYTES);
    const { accepted, settled, calls, callsSaved, throttled, lost } = model.counters;
    const shown = Object.entries({ accepted, settled, calls, 'calls saved': callsSaved, '429s': throttled, lost });
    expect(shown.map(([term]) => numberOf(page, term))).toEqual(shown.map(([, value]) => value.toLocaleString('en-US')));
    expect(page).toContain(`the last 2,000 of ${events.length.toLocaleString('en-US')} events`);
    expect(replay(importRecording(recordingIn(page))).counters).toMatchObject({ accepted, settled, calls, lost });
  });
});

describe('a report', () => {
  const events = recordedRun({ items: 100, throttledEvery: 7, poisoned: [40] });

  it('draws each call of a short run, and lists retries and splits as a tree', () => {
    const { page, digest } = reportOf(events);
    expect(page).not.toContain('Aggregated');
    const marks = [...page.matchAll(/<path class="\w+" d="([^"]*)"/g)]
      .slice(0, -digest.buckets.length)
      .map(([, path = '']) => path.split('M').length - 1);
    expect(page.match(/<svg role="img"[\s\S]*?<\/svg>/)![0].split('M').length - 1).toBe(digest.calls);
    expect(marks.every((count) => count > 0)).toBe(true);
    for (const tree of digest.trees) expect(page).toContain(`: ${tree.calls} calls</summary>`);
    expect(page).toContain('throttled');
  });

  it.each(['</script><script>alert(1)</script>', '"><img src=x onerror=alert(1)>', '<!--', "' onload='", '&lt;b&gt;', '${alert(1)}'])(
    'has %j as a name, and nothing but a name',
    (name) => {
      const { page } = reportOf(recordedRun({ items: 40, throttledEvery: 5, lanes: [name, 'normal'] }), { title: name });
      const markup = page.replaceAll(recordingIn(page), '');
      expect(recordingIn(page)).not.toContain('<');
      expect(markup.match(/<script\b/g)).toHaveLength(2);
      expect(markup).not.toMatch(/<img\b|<!--(?! sluice inspect -->)/);
      const escaped = name
        .replaceAll('&', '&amp;')
        .replaceAll('<', '&lt;')
        .replaceAll('>', '&gt;')
        .replaceAll('"', '&quot;')
        .replaceAll("'", '&#39;');
      expect(markup).toContain(`<bdi>${escaped}</bdi>`);
    },
  );

  it('cuts names that are long, and stays small', () => {
    const names = Array.from({ length: 100 }, (_, i) => `${String(i)}-${'n'.repeat(10_000)}`);
    const { page } = reportOf(recordedRun({ items: 1000, throttledEvery: 5, lanes: names }), { title: 'x'.repeat(10_000) });
    expect(Buffer.byteLength(page)).toBeLessThan(MAX_REPORT_BYTES);
    expect(page).not.toContain('n'.repeat(200));
  });

  it('shows nothing of what somebody put into an event, and asks nothing of the network', () => {
    const { page } = reportOf(events.map((event) => Object.assign({ prompt: 'secret', apiKey: 'secret' }, event)));
    expect(page).not.toContain('secret');
    expect(page).not.toMatch(/(?:src|href|action)="(?!data:)/);
    expect(page).toContain('default-src &#39;none&#39;');
  });
});
