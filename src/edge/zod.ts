import * as z from 'zod';
import { needsPeer } from '../peer-version.js';

// Schemas are made while modules load, so the version is checked here, before the first of them.
needsPeer('sluice/edge', 'zod', '^4.0.0', (z as { readonly $brand?: symbol }).$brand !== undefined);

export { z };
