/** One credit of the model. */
interface Entry {
  readonly credit: number;
  readonly lane: number;
  readonly from: number;
  readonly endsAt: number;
  readonly left: number[];
  /** By lane of the job and then by unit. */
  readonly spent: number[][];
  /** As what the unit that is held counts at the store. */
  heldAs: number;
  isOver: boolean;
  isFrozen: boolean;
  /** When it was paid with. */
  readonly times: number[];
}

interface Told {
  readonly credit: number;
  readonly lane: number;
  readonly amounts: number[];
}

const LEAST = 1e-6;
const COLUMNS = [0, 1];
const LANES = [0, 1, 2];

const none = (): number[][] => LANES.map(() => COLUMNS.map(() => 0));

/** A book of credit of two units and three lanes, which goes through a list of all credit for each question. It forgets nothing. */
export class CreditBookModel {
  readonly all: Entry[] = [];
  /** By lane and then by unit. */
  due = none();
  told: Told[] = [];

  constructor(readonly heldColumn: number) {}

  open(lane: number, now: number): Entry[] {
    return this.all.filter((each) => each.lane >= lane && !each.isOver && each.endsAt > now);
  }

  /** What is left of it or was paid with it. */
  amountOf({ left, spent }: Entry, column: number): number {
    return spent.reduce((sum, units) => sum + units[column]!, left[column]!);
  }

  private tell(entry: Entry, column: number, delta: number): void {
    const isHeld = column === this.heldColumn;
    if (delta === 0 || (entry.isFrozen && delta < 0 && !isHeld)) return;
    const [credit, lane] = [isHeld ? entry.heldAs : entry.credit, entry.lane];
    let told = this.told.find((each) => each.credit === credit && each.lane === lane);
    if (!told) this.told.push((told = { credit, lane, amounts: [0, 0] }));
    told.amounts[column]! += delta;
  }

  private charge(entry: Entry, column: number, amount: number, lane: number): void {
    entry.spent[lane]![column]! += amount;
    this.tell(entry, column, amount);
  }

  add(credit: number, amounts: readonly number[], lane: number, from: number, endsAt: number): void {
    const state = { isOver: false, isFrozen: false, heldAs: credit };
    const entry: Entry = { credit, lane, from, endsAt, left: [...amounts], spent: none(), times: [], ...state };
    this.all.push(entry);
    for (const job of LANES) for (const column of COLUMNS) this.charge(entry, column, this.due[job]![column]!, job);
    this.due = none();
  }

  pay(column: number, cost: number, lane: number, now: number): void {
    const open = this.open(lane, now);
    let due = cost;
    for (const each of open) {
      if (cost > 0 && each.left[column]! <= 0) continue;
      const paid = Math.min(due, each.left[column]!);
      each.left[column]! -= paid;
      each.spent[lane]![column]! += paid;
      each.times.push(now);
      due -= paid;
      if (due === 0) return;
    }
    const latest = open.at(-1);
    if (!latest) this.due[lane]![column]! += due;
    else {
      latest.times.push(now);
      this.charge(latest, column, due, lane);
    }
  }

  correct(column: number, delta: number, at: number, now: number, lane: number): void {
    const lasted = this.all.filter(({ endsAt }) => endsAt > at);
    const paid = lasted.filter(({ from, times }) => from <= at && Math.min(...times) <= at && Math.max(...times) >= at);
    if (delta > 0) {
      const latest = paid.findLast((each) => each.lane >= lane) ?? this.open(0, now).at(-1);
      if (latest) this.charge(latest, column, delta, lane);
      else this.due[lane]![column]! += delta;
      return;
    }
    let back = -delta;
    const refund = (each: Entry): void => {
      const given = Math.min(back, each.spent[lane]![column]!);
      each.spent[lane]![column]! -= given;
      if (!each.isOver && each.endsAt > now) each.left[column]! += given;
      else this.tell(each, column, -given);
      back -= given;
    };
    paid.forEach(refund);
    const owed = Math.min(back, this.due[lane]![column]!);
    this.due[lane]![column]! -= owed;
    back -= owed;
    lasted.forEach(refund);
  }

  end(of: (entry: Entry) => boolean): void {
    for (const each of this.all) {
      if (each.isOver || !of(each)) continue;
      each.isOver = true;
      for (const column of COLUMNS) this.tell(each, column, -each.left.splice(column, 1, 0)[0]!);
    }
  }

  renew(credit: number): boolean {
    const { heldColumn } = this;
    if (heldColumn < 0) return false;
    const held = this.all.filter(({ spent }) => spent.some((units) => units[heldColumn]! > 0));
    for (const each of held) {
      const amount = this.amountOf(each, heldColumn);
      this.tell(each, heldColumn, -amount);
      each.heldAs = credit;
      this.tell(each, heldColumn, amount);
    }
    return held.length > 0;
  }

  freeze(): void {
    for (const each of this.all) each.isFrozen = true;
    for (const { amounts } of this.told)
      for (const column of COLUMNS) if (column !== this.heldColumn) amounts[column] = Math.max(0, amounts[column]!);
  }

  endsAt(isAwaited: boolean): number {
    const next = this.all.find(({ isOver, left }) => !isOver && (isAwaited || left.some((amount) => amount > LEAST)));
    return next?.endsAt ?? Infinity;
  }
}
