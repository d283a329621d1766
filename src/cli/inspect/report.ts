import type { FlowCounters, LaneView } from '../../inspector/counters.js';
import type { Bucket, Call, Digest, Outcome, Part, Tree } from './digest.js';
import { html, jsonScript, Markup, makePage } from './html.js';
import { STYLE } from './style.js';

/** How every report begins. */
export const REPORT_MARK = '<!doctype html><!-- sluice inspect -->';

export const MAX_REPORT_BYTES = 2_000_000;

export interface ReportOptions {
  readonly title: string;
  readonly version: string;
  readonly digest: Digest;
  readonly counters: FlowCounters;
  readonly lanes: readonly LaneView[];
  /** Text of an export, and how many events it plays. */
  readonly recording: { readonly text: string; readonly events: number } | undefined;
  /** What shows the recording. */
  readonly script: string;
}

const OUTCOMES: readonly (readonly [Outcome, string])[] = [
  ['ok', 'answered'],
  ['throttled', 'refused: too many requests (429)'],
  ['failed', 'failed'],
  ['cancelled', 'cancelled'],
  ['running', 'still under way at the end'],
];
const MAX_NAME = 80;
const MAX_LANES = 50;
const MAX_PARTS = 100;

/** A page that shows a recorded run, with everything it needs in it. Names that come from events are escaped, and cut where they are long. */
export function makeReport({ title, version, digest, counters, lanes, recording, script }: ReportOptions): string {
  const calls = digest.each;
  const body = html`<main>
<h1>${name(title)}</h1>
<p class="quiet">${count(digest.events, 'event')} over ${seconds(digest.durationMs)}. Made by <code>sluice inspect</code> ${version}; it asks nothing of the network.</p>
${calls === undefined ? aggregationNote(digest) : ''}
<h2 id="numbers">Numbers</h2>
<dl class="numbers">${numbers(counters).map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>
<h2 id="calls">Calls over time</h2>
${calls === undefined ? bucketPicture(digest) : callPicture(calls, digest.durationMs)}
${legend(digest)}
<details><summary>The same as a table</summary>${bucketTable(digest)}</details>
<h2 id="lanes">Lanes</h2>
${laneTable(lanes)}
<h2 id="splits">Retries and splits</h2>
${digest.trees.length === 0 ? html`<p>No call was repeated or split.</p>` : digest.trees.map(treeDetails)}
${recording === undefined ? '' : player(recording, digest)}
</main>`;
  return makePage({ mark: REPORT_MARK, title: `${clip(title)}: sluice inspect`, style: STYLE, body, script, asksItsServer: false }).html;
}

function aggregationNote({ calls, bucketMs }: Digest): Markup {
  return html`<p class="note" role="note">Aggregated: there were ${count(calls, 'call')}, more than are drawn one by one. The picture shows slices of
${seconds(bucketMs)}, and of retries and splits the largest; the numbers are those of all calls.</p>`;
}

function numbers(counters: FlowCounters): (readonly [string, string])[] {
  const {
    accepted,
    settled,
    waiting,
    executing,
    calls,
    callsSaved,
    meanSize,
    meanFill,
    retries,
    splits,
    throttled,
    cancelled,
    tokens,
    lost,
  } = counters;
  const { firstLane, p50Ms, p99Ms } = counters;
  const lane = firstLane === undefined ? '' : `${clip(firstLane)} `;
  return [
    ['accepted', grouped(accepted)],
    ['settled', grouped(settled)],
    ['lost', grouped(lost)],
    ['calls', grouped(calls)],
    ['calls saved', grouped(callsSaved)],
    ['items in a call', meanSize.toFixed(1)],
    ...(meanFill === undefined ? [] : [['fill', `${(meanFill * 100).toFixed(0)} %`] as const]),
    [`${lane}p50`, `${grouped(p50Ms)} ms`],
    [`${lane}p99`, `${grouped(p99Ms)} ms`],
    ['429s', grouped(throttled)],
    ['retries', grouped(retries)],
    ['splits', grouped(splits)],
    ['cancelled', grouped(cancelled)],
    ['tokens', grouped(tokens)],
    ['waiting at the end', grouped(waiting)],
    ['under way at the end', grouped(executing)],
  ];
}

/** A mark for each call, in the first row that is free. */
function callPicture(calls: readonly Call[], durationMs: number): Markup {
  const rowEnds: number[] = [];
  const marks = new Map<Outcome, string>();
  const scale = WIDTH / Math.max(durationMs, 1);
  for (const { startMs, endMs, outcome } of calls) {
    const free = rowEnds.findIndex((end) => end <= startMs);
    const row = free === -1 ? Math.min(rowEnds.length, MAX_ROWS - 1) : free;
    rowEnds[row] = Math.max(endMs, startMs + LEAST / scale);
    const x = Math.round(startMs * scale);
    marks.set(
      outcome,
      `${marks.get(outcome) ?? ''}M${x} ${row * ROW + 1}h${Math.max(LEAST, Math.round((endMs - startMs) * scale))}v${ROW - 2}H${x}z`,
    );
  }
  const label = `${count(calls.length, 'call')} over ${seconds(durationMs)}, a mark for each`;
  return picture(label, Math.max(1, rowEnds.length) * ROW, marks);
}

const WIDTH = 2000;
const LEAST = 4;
const ROW = 20;
const MAX_ROWS = 64;
const HEIGHT = 200;

function bucketPicture({ buckets, bucketMs }: Digest): Markup {
  const highest = Math.max(1, ...buckets.map(({ calls }) => calls));
  const width = WIDTH / Math.max(1, buckets.length);
  const marks = new Map<Outcome, string>();
  buckets.forEach((bucket, i) => {
    let y = HEIGHT;
    for (const [outcome] of OUTCOMES) {
      const height = (callsBy(bucket, outcome) / highest) * HEIGHT;
      if (height === 0) continue;
      y -= height;
      const x = (i * width).toFixed(1);
      marks.set(outcome, `${marks.get(outcome) ?? ''}M${x} ${y.toFixed(1)}h${(width * 0.9).toFixed(1)}v${height.toFixed(1)}H${x}z`);
    }
  });
  return picture(`Calls in each of ${count(buckets.length, 'slice')} of ${seconds(bucketMs)}, at most ${grouped(highest)}`, HEIGHT, marks);
}

function callsBy({ calls, outcomes }: Bucket, outcome: Outcome): number {
  if (outcome !== 'running') return outcomes[outcome] ?? 0;
  return calls - Object.values(outcomes).reduce((sum, ended) => sum + ended, 0);
}

function picture(label: string, height: number, marks: ReadonlyMap<Outcome, string>): Markup {
  const paths = [...marks].map(([outcome, path]) => html`<path class="${outcome}" d="${path}"/>`);
  return html`<svg role="img" aria-label="${label}" viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none">${paths}</svg>`;
}

function legend({ buckets }: Digest): Markup {
  const seen = OUTCOMES.filter(([outcome]) => buckets.some((bucket) => callsBy(bucket, outcome) > 0));
  return html`<ul class="legend">${seen.map(
    ([outcome, said]) => html`<li><svg aria-hidden="true" viewBox="0 0 1 1"><path class="${outcome}" d="M0 0h1v1H0z"/></svg> ${said}</li>`,
  )}</ul>`;
}

function bucketTable({ buckets, bucketMs }: Digest): Markup {
  const rows = buckets.map((bucket, i) => ({ bucket, fromMs: i * bucketMs })).filter(({ bucket }) => bucket.calls + bucket.settled > 0);
  const cells = ({ calls, items, settled }: Bucket): readonly number[] => [calls, items, settled];
  return table(
    `Slices of ${seconds(bucketMs)}`,
    ['from', 'calls', 'items sent', 'items settled', ...OUTCOMES.map(([outcome]) => outcome)],
    rows.map(({ bucket, fromMs }) => [
      seconds(fromMs),
      ...[...cells(bucket), ...OUTCOMES.map(([outcome]) => callsBy(bucket, outcome))].map(grouped),
    ]),
  );
}

function laneTable(lanes: readonly LaneView[]): Markup {
  if (lanes.length === 0) return html`<p>No item was accepted.</p>`;
  const shown = table(
    'Items by lane',
    ['lane', 'accepted', 'settled', 'waiting', 'p50', 'p99'],
    lanes
      .slice(0, MAX_LANES)
      .map((lane) => [
        name(lane.name),
        grouped(lane.accepted),
        grouped(lane.settled),
        grouped(lane.waiting),
        `${grouped(lane.p50Ms)} ms`,
        `${grouped(lane.p99Ms)} ms`,
      ]),
  );
  return lanes.length <= MAX_LANES ? shown : html`${shown}<p>And ${count(lanes.length - MAX_LANES, 'more lane')}.</p>`;
}

function table(caption: string, head: readonly string[], rows: readonly (readonly (string | Markup)[])[]): Markup {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}"><table><caption>${caption}</caption>
<thead><tr>${head.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
<tbody>${rows.map(
    ([first = '', ...rest]) => html`<tr><th scope="row">${first}</th>${rest.map((cell) => html`<td>${cell}</td>`)}</tr>`,
  )}</tbody></table></div>`;
}

function treeDetails({ lane, startMs, calls, root }: Tree): Markup {
  const left = { parts: MAX_PARTS };
  return html`<details><summary>${count(root.size, 'item')} of lane ${name(lane)} after ${seconds(startMs)}: ${count(calls, 'call')}</summary>
${partDetails(root, left)}${left.parts <= 0 ? html`<p>Not all of its parts are listed.</p>` : ''}</details>`;
}

function partDetails({ size, outcomes, parts }: Part, left: { parts: number }): Markup {
  left.parts -= 1;
  const ended = outcomes.length === 0 ? 'not ended' : outcomes.map((outcome) => (outcome === 'ok' ? 'answered' : outcome)).join(', then ');
  const said = html`${count(size, 'item')}: ${ended}`;
  if (parts.length === 0 || left.parts <= 0) return html`<p>${said}</p>`;
  const inside = parts.flatMap((part) => (left.parts > 0 ? [partDetails(part, left)] : []));
  return html`<details open><summary>${said}, then ${count(parts.length, 'part')}</summary>${inside}</details>`;
}

function player({ text, events }: { readonly text: string; readonly events: number }, digest: Digest): Markup {
  const what = events < digest.events ? `the last ${grouped(events)} of ${count(digest.events, 'event')}` : 'all of it';
  return html`<h2 id="play">Play it</h2>
<p>The inspector shows ${what}.</p>
<div id="inspector"></div>
${jsonScript('recording', text)}`;
}

function name(text: string): Markup {
  return html`<bdi>${clip(text)}</bdi>`;
}

function clip(text: string): string {
  return text.length <= MAX_NAME ? text : `${text.slice(0, MAX_NAME - 1)}…`;
}

function count(amount: number, noun: string): string {
  return `${grouped(amount)} ${noun}${amount === 1 ? '' : 's'}`;
}

function grouped(amount: number): string {
  return Number.isFinite(amount) ? Math.round(amount).toLocaleString('en-US') : '–';
}

function seconds(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}
