/** Whose errors and events these are. */
export const NAME = 'createModelCaller';
