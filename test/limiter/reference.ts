/** What can be done to a limiter. Ids count every `acquire`, `try` and `enlist`; an id that fits nothing does nothing. */
export type Action =
  | {
      readonly do: 'acquire';
      readonly lane: number;
      readonly key: number;
      readonly requests: number;
      readonly tokens: number;
      readonly deadlineMs: number;
      readonly signal: boolean;
      readonly then: readonly Action[];
      readonly otherwise: readonly Action[];
    }
  | { readonly do: 'try'; readonly lane: number; readonly requests: number; readonly tokens: number }
  | { readonly do: 'enlist'; readonly lane: number; readonly wants: number; readonly then: readonly Action[] }
  | { readonly do: 'want'; readonly id: number; readonly wants: number | undefined }
  | { readonly do: 'leave' | 'abort' | 'linger' | 'workEnds'; readonly id: number }
  | { readonly do: 'release'; readonly id: number; readonly outcome: 'ok' | 'error' | 'cancelled' | 'unused' }
  | { readonly do: 'settle'; readonly id: number; readonly tokens: number }
  | { readonly do: 'penalize' | 'observe'; readonly ms: number }
  | { readonly do: 'setLimits'; readonly concurrency?: number; readonly requestsPerMinute?: number; readonly tokensPerMinute?: number }
  | { readonly do: 'close' | 'drain' };

export interface Setup {
  readonly concurrency: number;
  readonly requestsPerMinute: number;
  readonly tokensPerMinute: number;
  readonly burstSeconds: number;
  readonly lanes: readonly {
    readonly floor: number;
    readonly maxQueued: number;
    readonly overflow: 'error' | 'dropOldest' | 'dropNewest' | 'dropLowest' | 'latest';
  }[];
  readonly maxQueued: number;
  /** Whether the keys of a lane share it. */
  readonly keyed: boolean;
  readonly borrow: boolean;
  readonly abortGraceMs: number;
}

interface Waiter {
  readonly id: number;
  readonly lane: number;
  readonly key: number | undefined;
  readonly requests: number;
  /** Undefined when a bidder has given up. */
  tokens: number | undefined;
  readonly bidder: boolean;
  readonly expiresAt: number;
  /** It may not wait, so no other job is evicted for it. */
  readonly isBrief: boolean;
  readonly then: readonly Action[];
  readonly otherwise: readonly Action[];
}

interface Held {
  /** How many grants and corrections came before it, and before its own last correction. */
  readonly order: number;
  corrected: number;
  readonly requests: number;
  readonly estimate: number;
  tokens: number;
  released: boolean;
  lingersUntil: number | undefined;
}

/** Levels count in sixty-thousandths, so that one ms at a whole rate per minute adds a whole number. */
const UNIT = 60_000;

interface Account {
  perMinute: number;
  capacity: number;
  level: number;
  /** How many grants and corrections came before there was a limit. */
  since: number;
}

/** A limiter as it would be explained on a blackboard: arrays, walked from the front, a clock that ticks every ms. */
export class ReferenceLimiter {
  readonly log: string[] = [];
  readonly setup: Setup;
  readonly waiting: Waiter[] = [];
  readonly held = new Map<number, Held>();
  readonly #credit: number[];
  /** Keys with waiting jobs, lane by lane; the first has the next turn. */
  readonly #turns: (number | undefined)[][];
  readonly #signals = new Set<number>();
  /** Bidders that have not been told their place yet, so cannot leave it. */
  readonly #enlisting = new Set<number>();
  /** Those who unsubscribed are told nothing, even when they have just been refused. */
  readonly #left = new Set<number>();
  limits: { concurrency: number; requestsPerMinute: number; tokensPerMinute: number };
  /** Kept while their limits are lifted. */
  readonly #kept: { requests?: Account; tokens?: Account } = {};
  ids = 0;
  now = 0;
  pausedUntil = -Infinity;
  #entries = 0;
  closed = false;
  refusing = false;
  #settling = false;

  constructor(setup: Setup) {
    this.setup = setup;
    const { concurrency, requestsPerMinute, tokensPerMinute } = setup;
    this.limits = { concurrency, requestsPerMinute, tokensPerMinute };
    this.#credit = setup.lanes.map(() => 0);
    this.#turns = setup.lanes.map(() => []);
    this.#accounts();
  }

  get requests(): Account | undefined {
    return this.limits.requestsPerMinute === Infinity ? undefined : this.#kept.requests;
  }

  get tokens(): Account | undefined {
    return this.limits.tokensPerMinute === Infinity ? undefined : this.#kept.tokens;
  }

  get executing(): number {
    return [...this.held.values()].filter((lease) => !lease.released).length;
  }

  get lingering(): Held[] {
    return [...this.held.values()].filter((lease) => lease.lingersUntil !== undefined);
  }

  /** How many waiting jobs need nothing but a slot, lane by lane. */
  get payable(): number {
    if (this.now < this.pausedUntil) return 0;
    const inTurn = this.setup.lanes.flatMap((_, lane) => this.waiting.filter((waiter) => waiter.lane === lane));
    let requests = this.requests?.level ?? Infinity;
    let tokens = this.tokens?.level ?? Infinity;
    const stop = inTurn.findIndex((waiter) => {
      requests -= waiter.requests * UNIT;
      tokens -= (waiter.bidder ? 1 : (waiter.tokens ?? 0)) * UNIT;
      return requests < 0 || tokens < 0;
    });
    return stop === -1 ? inTurn.length : stop;
  }

  idOf(n: number): number {
    return this.ids === 0 ? -1 : this.ids - 1 - (n % this.ids);
  }

  advance(ms: number): void {
    // Callers that left before have freed their places by now.
    this.#settleWhatIsDue();
    for (let tick = 0; tick < ms; tick++) {
      this.now++;
      for (const account of Object.values(this.#kept)) account.level = Math.min(account.capacity, account.level + account.perMinute);
      this.#settleWhatIsDue();
    }
  }

  #settleWhatIsDue(): void {
    const isDue = (at: number | undefined): boolean => at !== undefined && at <= this.now;
    const free = this.waiting.length > 0 && this.executing < this.limits.concurrency;
    if (free || this.waiting.some((waiter) => isDue(waiter.expiresAt)) || this.lingering.some((lease) => isDue(lease.lingersUntil)))
      this.#settle();
  }

  /** Whether something has to happen at a time that is known. */
  get needsTimer(): boolean {
    if (this.waiting.some((waiter) => waiter.expiresAt !== Infinity) || this.lingering.some((lease) => lease.lingersUntil !== Infinity))
      return true;
    return this.waiting.length > 0 && this.executing < this.limits.concurrency;
  }

  do(action: Action): void {
    switch (action.do) {
      case 'acquire': {
        const id = this.ids++;
        const { lane, requests, tokens } = action;
        const key = this.setup.keyed ? action.key : undefined;
        const heavy = this.#tooHeavy(requests, tokens);
        if (heavy) {
          this.#refuse(id, 'FLOW_ITEM_TOO_HEAVY', action.otherwise);
          return;
        }
        if (this.closed) {
          this.#refuse(id, 'FLOW_CLOSED', action.otherwise);
          return;
        }
        if (action.signal) this.#signals.add(id);
        const mayWait = this.setup.maxQueued > 0 && this.setup.lanes[lane]!.maxQueued > 0;
        const waitMs = mayWait ? action.deadlineMs : 0;
        this.#admit({
          id,
          lane,
          key,
          requests,
          tokens,
          bidder: false,
          expiresAt: this.now + waitMs,
          isBrief: waitMs === 0,
          then: action.then,
          otherwise: action.otherwise,
        });
        return;
      }
      case 'enlist': {
        const id = this.ids++;
        const waiter = {
          id,
          lane: action.lane,
          key: undefined,
          requests: 1,
          tokens: action.wants,
          bidder: true,
          expiresAt: Infinity,
          isBrief: false,
          then: action.then,
          otherwise: [],
        };
        this.#enlisting.add(id);
        if (this.closed) this.#refuse(id, 'FLOW_CLOSED', []);
        else this.#admit(waiter);
        this.#enlisting.delete(id);
        return;
      }
      case 'try': {
        const id = this.ids++;
        const { lane, requests, tokens } = action;
        if (!this.closed && !this.#tooHeavy(requests, tokens) && this.#goesAtOnce(lane, requests, tokens)) {
          this.#charge(id, lane, requests, tokens);
          this.#lookAhead();
          this.log.push(`${String(id)} tried and got it`);
        } else {
          this.log.push(`${String(id)} tried in vain`);
        }
        return;
      }
      case 'want': {
        const waiter = this.waiting.find(({ id, bidder }) => bidder && id === this.idOf(action.id));
        if (!waiter || this.#enlisting.has(waiter.id)) return;
        waiter.tokens = action.wants;
        this.#settle();
        return;
      }
      case 'leave':
        this.#leave(this.idOf(action.id));
        return;
      case 'abort': {
        const id = this.idOf(action.id);
        if (!this.#signals.delete(id)) return;
        const waiter = this.waiting.find((each) => each.id === id);
        if (!waiter) return;
        this.#drop(waiter);
        this.#lookAhead();
        this.#refuse(id, 'AbortError', waiter.otherwise);
        return;
      }
      case 'release': {
        const lease = this.held.get(this.idOf(action.id));
        if (lease) this.#release(lease, action.outcome);
        return;
      }
      case 'workEnds': {
        const lease = this.held.get(this.idOf(action.id));
        if (lease?.lingersUntil !== undefined) this.#release(lease, 'ok');
        return;
      }
      case 'linger': {
        const lease = this.held.get(this.idOf(action.id));
        if (!lease || lease.released || lease.lingersUntil !== undefined) return;
        if (this.refusing || this.setup.abortGraceMs === 0) {
          this.#release(lease, 'cancelled');
          return;
        }
        lease.lingersUntil = this.now + this.setup.abortGraceMs;
        this.#lookAhead();
        return;
      }
      case 'settle': {
        const lease = this.held.get(this.idOf(action.id));
        if (!lease) return;
        const more = action.tokens - lease.tokens;
        const before = paidSoFar(lease, this.tokens);
        lease.tokens = action.tokens;
        lease.corrected = this.#entries++;
        pay(this.tokens, tokensPaid(lease, this.tokens) - before);
        if (more < 0) this.#settle();
        return;
      }
      case 'penalize':
      case 'observe':
        if (action.do === 'penalize' && action.ms === 0) {
          if (this.pausedUntil <= this.now) return;
          this.pausedUntil = this.now;
          this.#settle();
          return;
        }
        if (this.now + action.ms <= this.pausedUntil) return;
        this.pausedUntil = this.now + action.ms;
        this.#lookAhead();
        return;
      case 'setLimits': {
        const wasLimited = { requests: this.requests !== undefined, tokens: this.tokens !== undefined };
        this.limits = {
          concurrency: action.concurrency ?? this.limits.concurrency,
          requestsPerMinute: action.requestsPerMinute ?? this.limits.requestsPerMinute,
          tokensPerMinute: action.tokensPerMinute ?? this.limits.tokensPerMinute,
        };
        this.#accounts(wasLimited);
        this.#settle();
        return;
      }
      case 'drain':
        this.closed = true;
        return;
      case 'close': {
        this.closed = true;
        this.refusing = true;
        for (let lane = 0; lane < this.setup.lanes.length; lane++) {
          const oldest = (): Waiter | undefined => this.waiting.find((waiter) => waiter.lane === lane);
          for (let waiter = oldest(); waiter; waiter = oldest()) {
            this.#drop(waiter);
            this.#refuse(waiter.id, 'FLOW_CLOSED', waiter.otherwise);
          }
        }
        for (const lease of this.lingering) this.#release(lease, 'cancelled');
        this.#settle();
      }
    }
  }

  #accounts(wasLimited = { requests: false, tokens: false }): void {
    const { requestsPerMinute, tokensPerMinute } = this.limits;
    this.#account('requests', requestsPerMinute, wasLimited.requests);
    this.#account('tokens', tokensPerMinute, wasLimited.tokens);
  }

  #account(unit: 'requests' | 'tokens', perMinute: number, wasLimited: boolean): void {
    if (perMinute === Infinity) return;
    const capacity = Math.max(UNIT, perMinute * 1000 * this.setup.burstSeconds);
    const { level = capacity, since = 0 } = this.#kept[unit] ?? {};
    this.#kept[unit] = { perMinute, capacity, level: Math.min(level, capacity), since: wasLimited ? since : this.#entries };
  }

  #tooHeavy(requests: number, tokens: number): boolean {
    if (this.setup.borrow) return false;
    return requests * UNIT > (this.requests?.capacity ?? Infinity) || tokens * UNIT > (this.tokens?.capacity ?? Infinity);
  }

  #admit(waiter: Waiter): void {
    const lane = this.setup.lanes[waiter.lane]!;
    const jobs = this.waiting.filter(({ bidder }) => !bidder);
    const inLane = jobs.filter((job) => job.lane === waiter.lane);
    const laneFull = inLane.length >= lane.maxQueued;
    const full = !waiter.bidder && !waiter.isBrief && (laneFull || jobs.length >= this.setup.maxQueued);
    const losers: Waiter[] = [];
    if (full && !this.#goesAtOnce(waiter.lane, waiter.requests, waiter.tokens ?? 0)) {
      // A job that is granted in this very step counts above the bound as well.
      const excess = 1 + Math.max(jobs.length - this.setup.maxQueued, inLane.length - lane.maxQueued);
      if (lane.overflow === 'latest') losers.push(...inLane);
      else if (lane.overflow === 'dropOldest') losers.push(...inLane.slice(0, excess));
      else if (lane.overflow === 'dropLowest' && !laneFull) {
        for (let lowest = this.setup.lanes.length - 1; lowest > waiter.lane; lowest--) {
          const newest = jobs.filter((job) => job.lane === lowest).reverse();
          losers.push(...newest.slice(0, excess - losers.length));
        }
      }
      if (losers.length === 0) losers.push(waiter);
    }
    for (const loser of losers) this.#drop(loser);
    if (!losers.includes(waiter)) {
      this.waiting.push(waiter);
      const turns = this.#turns[waiter.lane]!;
      if (!turns.includes(waiter.key)) turns.push(waiter.key);
    }
    for (const loser of losers) this.#refuse(loser.id, 'FLOW_OVERFLOW', loser.otherwise);
    this.#settle();
  }

  /** The oldest job of the key whose turn it is. */
  #first(lane: number): Waiter | undefined {
    return this.waiting.find((waiter) => waiter.lane === lane && waiter.key === this.#turns[lane]![0]);
  }

  #leave(id: number): void {
    if (this.#enlisting.has(id)) return;
    this.#left.add(id);
    const waiter = this.waiting.find((each) => each.id === id);
    if (!waiter) return;
    this.#drop(waiter);
    this.#lookAhead();
  }

  #drop(waiter: Waiter, hadTurn = false): void {
    const at = this.waiting.indexOf(waiter);
    if (at >= 0) this.waiting.splice(at, 1);
    const { lane: its, key } = waiter;
    const isLast = !this.waiting.some((other) => other.lane === its && other.key === key);
    const turns = this.#turns[its]!;
    if (isLast || hadTurn) this.#turns[its] = [...turns.filter((each) => each !== key), ...(isLast ? [] : [key])];
    if (!this.waiting.some(({ lane }) => lane === waiter.lane)) this.#credit[waiter.lane] = 0;
  }

  #refuse(id: number, why: string, otherwise: readonly Action[]): void {
    if (this.#left.has(id)) return;
    this.log.push(`${String(id)} refused at ${String(this.now)}: ${why}`);
    for (const action of otherwise) this.do(action);
  }

  #release(lease: Held, outcome: string): void {
    if (lease.released) return;
    lease.released = true;
    lease.lingersUntil = undefined;
    if (outcome === 'unused') {
      if (paidBy(lease, this.requests)) pay(this.requests, -lease.requests);
      pay(this.tokens, -paidSoFar(lease, this.tokens));
      lease.tokens = 0;
      lease.corrected = this.#entries++;
    }
    // A cancelled job grants nothing itself; the next step does, at the latest the end of the frame.
    if (outcome === 'cancelled') this.#lookAhead();
    else this.#settle();
  }

  #owed(): number {
    return this.setup.lanes.findIndex((_, lane) => this.#credit[lane]! >= 1 && this.waiting.some((waiter) => waiter.lane === lane));
  }

  /** Whose turn it is: the lane that is owed one, else the most urgent; first come, first served inside. */
  #next(): Waiter | undefined {
    const owed = this.#owed();
    const lane = owed >= 0 ? owed : Math.min(...this.waiting.map((waiter) => waiter.lane));
    return this.#first(lane);
  }

  /** Setting the timer asks which job will be next. */
  #lookAhead(): void {
    if (!this.#settling && this.executing < this.limits.concurrency) this.#nextWanting();
  }

  /** Asks the next job for its cost. Jobs that have given up are dropped. */
  #nextWanting(): Waiter | undefined {
    for (let next = this.#next(); next; next = this.#next()) {
      if (next.tokens !== undefined) return next;
      this.#drop(next);
    }
    return undefined;
  }

  #goesAtOnce(lane: number, requests: number, tokens: number): boolean {
    return this.#owed() === -1 && this.waiting.every((waiter) => waiter.lane > lane) && this.#blocked(requests, tokens) === undefined;
  }

  #blocked(requests: number, tokens: number): string | undefined {
    if (this.executing >= this.limits.concurrency) return 'concurrency';
    if (this.now < this.pausedUntil) return 'pause';
    if (missing(this.requests, requests) > 0) return 'requestsPerMinute';
    if (missing(this.tokens, tokens) > 0) return 'tokensPerMinute';
    return undefined;
  }

  #retryAfterMs({ requests, tokens = 0 }: Pick<Waiter, 'requests' | 'tokens'>): number {
    const wait = (owner: Account | undefined, cost: number): number => (owner ? Math.max(0, missing(owner, cost)) / owner.perMinute : 0);
    return Math.max(0, this.pausedUntil - this.now, wait(this.requests, requests), wait(this.tokens, tokens));
  }

  #charge(id: number, lane: number, requests: number, estimate: number): void {
    // No estimate costs more than what a minute brings in.
    const tokens = Math.min(estimate, this.tokens ? Math.max(this.tokens.perMinute, this.tokens.capacity / UNIT) : Infinity);
    const floors = this.setup.lanes.filter(({ floor }) => floor > 0).length;
    this.setup.lanes.forEach(({ floor }, each) => {
      const waits = this.waiting.some((waiter) => waiter.lane === each);
      const credit = this.#credit[each]! + floor - (each === lane ? 1 : 0);
      this.#credit[each] = waits ? Math.max(0, Math.min(1 + floors, credit)) : 0;
    });
    pay(this.requests, requests);
    pay(this.tokens, tokens);
    const order = this.#entries++;
    this.held.set(id, { order, corrected: order, requests, estimate: tokens, tokens, released: false, lingersUntil: undefined });
  }

  /** Grants every job that can go, then refuses every job that has waited too long, until neither happens. */
  #settle(): void {
    if (this.#settling) return;
    this.#settling = true;
    for (let busy = true; busy; ) {
      busy = false;
      for (let next = this.#next(); next && !this.refusing; next = this.#next()) {
        if (next.tokens === undefined) {
          this.#drop(next);
          continue;
        }
        if (this.#blocked(next.requests, next.tokens) !== undefined) break;
        this.#drop(next, true);
        this.#charge(next.id, next.lane, next.requests, next.tokens);
        this.log.push(`${String(next.id)} granted at ${String(this.now)}`);
        for (const action of next.then) this.do(action);
      }
      for (;;) {
        const late = this.waiting.filter(({ expiresAt }) => expiresAt <= this.now).sort((a, b) => a.expiresAt - b.expiresAt)[0];
        if (!late) break;
        busy = true;
        const lead = this.#nextWanting() ?? late;
        const limit = this.#blocked(lead.requests, lead.tokens ?? 0) ?? 'concurrency';
        const retryAfterMs = Math.max(this.#retryAfterMs(late), this.#retryAfterMs(lead));
        this.#drop(late);
        this.#refuse(
          late.id,
          `${late.isBrief ? 'FLOW_RATE_LIMITED' : 'FLOW_DEADLINE'} ${limit} ${retryAfterMs.toFixed(2)}`,
          late.otherwise,
        );
      }
      for (const lease of this.lingering) {
        if ((lease.lingersUntil ?? Infinity) > this.now) continue;
        busy = true;
        this.#release(lease, 'cancelled');
      }
    }
    this.#settling = false;
  }
}

function missing(owner: Account | undefined, cost: number): number {
  return owner ? Math.min(cost * UNIT, owner.capacity) - owner.level : 0;
}

/** What was granted before there was a limit has paid nothing to it but what it used above its estimate. */
function tokensPaid(lease: Held, owner: Account | undefined): number {
  return paidBy(lease, owner) ? lease.tokens : Math.max(0, lease.tokens - lease.estimate);
}

/** A correction from before there was a limit was not paid to it. */
function paidSoFar(lease: Held, owner: Account | undefined): number {
  return owner !== undefined && lease.corrected >= owner.since ? tokensPaid(lease, owner) : 0;
}

/** Nothing else comes back of what was granted before there was a limit. */
function paidBy({ order }: Held, owner: Account | undefined): boolean {
  return owner !== undefined && order >= owner.since;
}

function pay(owner: Account | undefined, cost: number): void {
  if (owner) owner.level = Math.min(owner.capacity, owner.level - cost * UNIT);
}
