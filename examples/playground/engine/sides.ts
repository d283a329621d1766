export const SIDES = ['plain', 'sluice'] as const;
export type Side = (typeof SIDES)[number];
