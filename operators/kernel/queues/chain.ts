/** Knows its neighbours in the chain it is in; it can be in one at a time. */
export interface Linked<T> {
  previous: T | undefined;
  next: T | undefined;
}

/** A list in the order of adding with O(1) add and delete, linked through its members: it makes no object. */
export class Chain<T extends Linked<T>> {
  first: T | undefined = undefined;
  length = 0;
  private last: T | undefined = undefined;

  /** Adds at the end what is in no chain. */
  add(member: T): void {
    const { last } = this;
    member.previous = last;
    if (last) last.next = member;
    else this.first = member;
    this.last = member;
    this.length++;
  }

  /** Takes a member out. */
  delete(member: T): void {
    const { previous, next } = member;
    if (previous) previous.next = next;
    else this.first = next;
    if (next) next.previous = previous;
    else this.last = previous;
    member.previous = undefined;
    member.next = undefined;
    this.length--;
  }

  /** Forgets its members; they are not to be used again. */
  clear(): void {
    this.first = undefined;
    this.last = undefined;
    this.length = 0;
  }
}
