// What the arrival of an item asks for.
/** Nothing: it waits behind others. */
export const NOTHING = 0;
/** A frame, at whose end `frameOver` is called: what comes until then travels together. */
export const FRAME = 1;
/** The question what is next. */
export const ROUND = 2;
export type Arrival = typeof NOTHING | typeof FRAME | typeof ROUND;

// What is next.
/** Nothing, before `wakesAt` or another event. */
export const REST = 3;
/** A permit is to be asked for, in the lane `waitsIn`; `granted` is called with it, now or later. */
export const ASK = 4;
/** The place in the queue for permits is kept; what is bid there may have changed. */
export const STAY = 5;
/** The place in the queue for permits is to be freed. */
export const WITHDRAW = 6;
/** Results and notes are to be handed out before anything else. */
export const HAND_OUT = 7;
export type Step = typeof REST | typeof ASK | typeof STAY | typeof WITHDRAW | typeof HAND_OUT;

// The life of a machine.
/** It takes items. */
export const OPEN = 0;
/** It takes no more, so that nothing waits for company. */
export const FINISHING = 1;
/** All are settled or forgotten. */
export const CLOSED = 2;
