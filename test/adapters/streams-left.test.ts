import { streamsLeft } from '../support/streams-left/suite.js';

// `npm run test:deep` leaves 1500 of each.
streamsLeft(10, 60_000);
