import { simulateHalf } from './half.js';

simulateHalf(0);
