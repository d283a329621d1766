import { createLimiter } from '/work/main/operators/create-limiter.js';
import { VirtualTimeScheduler } from 'rxjs';
function rng(seed: number) { return () => { seed |= 0; seed = (seed + 0x6d2b79f5) | 0; let t = Math.imul(seed ^ (seed >>> 15), 1 | seed); t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t; return ((t ^ (t >>> 14)) >>> 0) / 4294967296; }; }
const N = Number(process.argv[2] ?? 300), S0 = Number(process.argv[3] ?? 1);
let bad = 0;
for (let seed = S0; seed < S0 + N && bad < 6; seed++) {
  const r = rng(seed), pick = <T,>(a: readonly T[]): T => a[Math.floor(r() * a.length)]!;
  class Clock extends VirtualTimeScheduler { n = 0; offset = 0; override now = () => this.frame + this.offset; override schedule(w: any, d = 0, s?: any) { this.n++; return super.schedule(w, d, s); } }
  const scheduler = new Clock();
  const run = (until: number) => { scheduler.maxFrames = until; scheduler.n = 0; 
    const acts = (scheduler as any).actions; let count = 0, a;
    while ((a = acts[0]) && a.delay <= until) { acts.shift(); scheduler.frame = a.delay; if (a.execute(a.state, a.delay)) throw new Error('exec'); if (++count > 20000) throw new Error('spin at ' + scheduler.frame); }
    scheduler.frame = Math.max(scheduler.frame, until === Infinity ? scheduler.frame : until); };
  const fail = (m: string) => { console.log('seed', seed, m); bad++; };
  const lanesOn = r() < 0.6;
  const lanes = ['P0', 'P1', 'P2'];
  const fairness = pick(['strict', 'fifo', 'wdrr', 'roundRobin'] as const);
  const opts = (root: boolean): any => {
    const sliding = r() < 0.25;
    return {
      ...(r() < 0.7 && { concurrency: 1 + Math.floor(r() * 3) }),
      ...(r() < 0.35 && { requestsPerMinute: pick([60, 600, 6000]) }),
      ...(r() < 0.35 && { tokensPerMinute: pick([600, 6000]) }),
      headroom: 1, random: r,
      ...(sliding ? { discipline: 'sliding', costAboveCapacity: 'reject' } : { burstSeconds: pick([0.5, 2]), costAboveCapacity: pick(['borrow', 'reject']) }),
      maxQueued: pick([0, 2, 1000, 1000, 1000]), overflow: pick(['error', 'dropOldest', 'dropLowest', 'latest', 'dropNewest']),
      ...(r() < 0.2 && { longPause: 'fail', maxPauseMs: 500 }),
      ...(root && lanesOn && { lanes: lanes.map((name) => ({ name })), fairness }),
    };
  };
  try {
    const all: any[] = []; const o: any[] = [];
    const mk = (parent?: any) => { const op = opts(!parent); const l = parent ? parent.child(op) : createLimiter({ ...op, scheduler }); all.push(l); o.push(op); return l; };
    const root = mk(); const a = mk(root), b = mk(root), aa = mk(a), ab = mk(a); mk(aa);
    const keyed = a.keyed({ concurrency: 1 });
    let raised = new Map<any, number>();
    for (const [i, l] of all.entries()) raised.set(l, o[i].concurrency ?? Infinity);
    const targets = [...all];
    const leases: any[] = []; let open = 0, jobs = 0; const waiting = new Set<any>();
    const grants = new Map<any, number>();
    const checkSlots = () => { for (const l of all) if (l.executing > raised.get(l)) throw new Error('slots ' + l.executing + '>' + raised.get(l)); };
    let depth = 0;
    const clocked = r() < 0.3;
    const step = () => {
      const x = r(), l = pick(targets);
      const lane = lanesOn ? pick(lanes) : undefined;
      if (x < 0.42) {
        const job: any = { ...(lane && { lane }), cost: { tokens: pick([0, 0, 1, 10, 30]), requests: pick([1, 1, 1, 0, 2]) }, ...(r() < 0.15 && { timeoutMs: pick([0, 50, 500]) }), ...(r() < 0.15 && leases.length && { holder: pick(leases) }) };
        const target = r() < 0.15 ? { acquire: (j: any) => keyed.acquire({ ...j, key: Math.floor(r() * 4) }) } : l;
        const e: any = { n: 0, job }; jobs++; open++;
        waiting.add(e);
        const done = (how: string) => { if (e.n++ > 0) throw new Error('settled twice ' + how); e.how = how; open--; waiting.delete(e); };
        e.sub = target.acquire(job).subscribe({ next: (lease: any) => { done('granted'); leases.push(lease); checkSlots(); if (depth < 2 && r() < 0.3) { depth++; step(); depth--; } }, error: (err: any) => { done(err.code ?? String(err)); if (!err.code) throw err; if (depth < 2 && r() < 0.2) { depth++; step(); depth--; } } });
        e.done = done;
      } else if (x < 0.47) { const lease = l.tryAcquire({ ...(lane && { lane }), cost: { tokens: 2 } }); if (lease) { leases.push(lease); checkSlots(); } }
      else if (x < 0.52) {
        let times = 1 + Math.floor(r() * 3); const e: any = { bidder: true }; 
        const place = (function enlist(): any { const e2: any = { n: 0, bidder: true }; open++; waiting.add(e2); const fin = (h: string) => { if (e2.n++) throw new Error('bidder twice'); open--; waiting.delete(e2); };
          const p = l.enlist({ bid: (aff: number) => { if (r() < 0.15) { if (!e2.n) fin('gave up'); return undefined; } return Math.min(20, Math.max(1, Math.floor(aff) || 1)); }, granted: (lease: any) => { fin('granted'); leases.push(lease); checkSlots(); if (--times > 0) enlist(); }, refused: () => fin('refused') }, lane);
          e2.sub = { unsubscribe: () => p?.withdraw() }; e2.done = () => fin('left'); return p; })();
      }
      else if (x < 0.72) { const i = Math.floor(r() * leases.length); const [lease] = leases.splice(i, 1); if (lease) { if (r() < 0.3) lease.settle({ inputTokens: pick([0, 5, 60]) }); lease.release(pick(['ok', 'ok', 'error', 'cancelled', 'unused'])); if (r() < 0.1) lease.settle({ inputTokens: 40 }); } }
      else if (x < 0.75) { const i = Math.floor(r() * leases.length); const [lease] = leases.splice(i, 1); lease?.releaseAfter({ then: () => undefined } as any); }
      else if (x < 0.82) { const w: any = pick([...waiting]); if (w?.sub) { const had = w.n; w.sub.unsubscribe(); if (!w.n) w.done('left'); } }
      else if (x < 0.85) { if (r() < 0.5) l.penalize(pick([10, 100, 1000])); else if (lane) l.penalize(pick([10, 100, 1000]), lane); }
      else if (x < 0.88) { const c = 1 + Math.floor(r() * 3); raised.set(l, Math.max(raised.get(l), c)); l.setLimits({ concurrency: c }); raised.set(l, Math.max(l.snapshot().concurrency, l.executing)); }
      else if (x < 0.92) { const resp = { status: pick([200, 429, 503, 529]), headers: pick([{}, { 'retry-after': '0.2' }, { 'x-ratelimit-limit-requests': '60', 'x-ratelimit-remaining-requests': pick(['0', '5']) }, { 'x-ratelimit-limit-tokens': '600', 'x-ratelimit-remaining-tokens': '0' }, { 'retry-after': 'NaN', 'x-ratelimit-limit-tokens': '-1' }]) }; if (r() < 0.5 && leases.length) (pick(leases) as any).observe(resp); else l.observe(resp); }
      else if (x < 0.93 && clocked) scheduler.offset -= pick([5, 100, 5000]);
      else if (depth === 0) run(scheduler.frame + pick([0, 1, 10, 100, 1000]));
    };
    for (const l of all) { if (r() < 0.3) l.watch(() => { if (r() < 0.2) { const le = l.tryAcquire(lanesOn ? { lane: pick(lanes) } : {}); if (le) leases.push(le); } }); if (r() < 0.3) l.onRelease(() => undefined); }
    for (let i = 0; i < 250; i++) { step(); }
    // end: release everything until nothing waits
    const mode = r();
    const end: any = mode < 0.5 ? undefined : pick(all.slice(0, 3));
    let drainedFlag = false, drains: Promise<any>[] = [];
    if (end) { const p = mode < 0.85 ? end.drain() : (end.close(), end.drain()); drains.push(p); p.then(() => { drainedFlag = true; }); }
    for (let i = 0; i < 3000 && (waiting.size || leases.length); i++) { while (leases.length) leases.shift().release('ok'); run(scheduler.frame + (i < 200 ? 10 : 10_000)); checkSlots(); }
    if (waiting.size) { fail(clocked + " " + mode + " " + JSON.stringify(o.map((x: any) => [x.concurrency, x.requestsPerMinute, x.tokensPerMinute, x.burstSeconds, x.discipline, x.costAboveCapacity])) + lanesOn + fairness); throw new Error('stranded ' + waiting.size + ' of ' + jobs + ' ' + JSON.stringify([...waiting].slice(0, 2).map((w: any) => w.job ?? 'bidder')) + JSON.stringify(all.map((l) => { const s = l.snapshot(); return [s.queued, s.executing, s.concurrency, s.tokens, s.requests, s.pausedForMs]; }))); }
    while (leases.length) leases.shift().release('ok');
    run(scheduler.frame + 3_600_000); while (leases.length) { leases.shift().release('ok'); run(scheduler.frame + 1000); }
    for (const l of all) { const s = l.snapshot(); if (s.queued || s.executing) fail('left ' + all.indexOf(l) + JSON.stringify(s)); }
    if ((scheduler as any).actions.length) { const left = (scheduler as any).actions.filter((x: any) => !x.closed).length; if (left) fail('timers left ' + left); }
    await Promise.resolve(); await Promise.resolve(); await Promise.resolve();
    if (end && !drainedFlag) fail('not drained ' + all.indexOf(end) + ' ' + mode);
    let rootDrained = false; void root.drain().then(() => { rootDrained = true; }); await new Promise((res) => setImmediate(res));
    if (!rootDrained) fail('root not drained');
    if (open !== 0) fail('open ' + open);
  } catch (error) { fail(String((error as Error).stack).split('\n').slice(0, 6).join(' | ')); }
}
console.log('done', bad);
