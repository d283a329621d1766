import { streamsLeft } from '../support/streams-left/suite.js';

streamsLeft(1500, 600_000);
