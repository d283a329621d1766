/** What is known of a run in progress. */
export interface ProgressFacts {
  /** Rows that were read from the input, and the part of it that they are, from 0 to 1. */
  readonly read: number;
  readonly share: number;
  /** Whether that is all of it. */
  readonly isRead: boolean;
  /** How many rows it has, where that is known before. */
  readonly count: number | undefined;
  /** Rows that earlier runs are through with: those that were read, and those that may still come. */
  readonly earlier: number;
  readonly earlierToCome: number;
  /** Rows that were taken up, and those of them that are over. */
  readonly taken: number;
  readonly finished: number;
  /** Most rows that are taken up. */
  readonly limit: number;
  /** 0 while it is not known. */
  readonly rowsPerMinute: number;
}

/** How far a run is. */
export interface Progress {
  /** Rows that are over, those of earlier runs included. */
  readonly finished: number;
  /** Of so many; undefined while there is no way to tell. */
  readonly total: number | undefined;
  /** Whether `total` is an estimate, by the part of the input that was read. */
  readonly isEstimate: boolean;
  /** From 0 to 1. */
  readonly share: number;
  /** Undefined while it cannot be known. */
  readonly etaMs: number | undefined;
}

const MINUTE_MS = 60_000;

/** How far a run is: rows that are over, of those that it will be through with in the end. */
export function progressOf(facts: ProgressFacts): Progress {
  const { read, share, taken, finished, limit, rowsPerMinute } = facts;
  const isRead = facts.isRead || share >= 1;
  const inAll = isRead
    ? read
    : facts.count !== undefined
      ? Math.max(read, facts.count)
      : share > 0
        ? Math.max(read, Math.round(read / share))
        : undefined;
  if (inAll === undefined) return { finished: facts.earlier + finished, total: undefined, isEstimate: false, share: 0, etaMs: undefined };
  const earlier = facts.earlier + Math.min(facts.earlierToCome, inAll - read);
  const toDo = Math.max(taken, Math.min(limit, inAll - earlier));
  const total = earlier + toDo;
  return {
    finished: earlier + finished,
    total,
    isEstimate: !isRead && facts.count === undefined && toDo < limit,
    share: total === 0 ? 1 : (earlier + finished) / total,
    etaMs: rowsPerMinute > 0 ? ((toDo - finished) / rowsPerMinute) * MINUTE_MS : undefined,
  };
}
