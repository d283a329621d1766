/** Unstable: what is between those who make calls and those who limit them, for permits of your own. */

export type { Bidder, Outcome, Permit, Permits, Place } from './options/permits.js';
